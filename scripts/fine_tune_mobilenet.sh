#!/bin/sh
# Fine-tunes the ImageNet weights that come with the project on record files of your own, in fp16:
# first a new last layer, then all layers, then an evaluation.
#
#   sh scripts/fine_tune_mobilenet.sh DATASET_DIR DATASET_NAME TRAIN_DIR [FLAG...]
set -eu
cd "$(dirname "$0")/.."
dataset_dir=$1 dataset_name=$2 train_dir=$3
shift 3
common="--model_name=mobilenet_v1 --dtype=fp16 --dataset_dir=$dataset_dir --dataset_name=$dataset_name"

python train_image_classifier.py $common --train_dir="$train_dir/head" \
  --checkpoint_path=checkpoints/mobilenet_v1_1.0_224 \
  --checkpoint_exclude_scopes=MobilenetV1/Logits --trainable_scopes=MobilenetV1/Logits \
  --max_number_of_steps=500 --learning_rate=0.01 --learning_rate_decay_type=fixed "$@"
python train_image_classifier.py $common --train_dir="$train_dir/all" \
  --checkpoint_path="$train_dir/head" \
  --max_number_of_steps=500 --learning_rate=0.0001 --learning_rate_decay_type=fixed "$@"
python eval_image_classifier.py $common --dataset_split_name=validation \
  --checkpoint_path="$train_dir/all" --eval_dir="$train_dir/all/eval"
