#!/bin/sh
# Fine-tunes the ImageNet weights that come with the project on record files of your own, in fp16:
# first a new last layer, then all layers, then an evaluation.
set -eu
if [ $# -lt 3 ]; then
  echo "usage: sh scripts/fine_tune_mobilenet.sh DATASET_DIR DATASET_NAME TRAIN_DIR [FLAG...]" >&2
  exit 2
fi
dataset_dir=$1 dataset_name=$2 train_dir=$3
shift 3
project=$(cd "$(dirname "$0")/.." && pwd)

run() {
  program=$1
  shift
  python "$project/$program.py" --dtype=fp16 \
    --dataset_dir="$dataset_dir" --dataset_name="$dataset_name" "$@"
}

run train_image_classifier --train_dir="$train_dir/head" \
  --checkpoint_path="$project/checkpoints/mobilenet_v1_1.0_224" \
  --trainable_scopes=MobilenetV1/Logits --freeze_batch_norm \
  --max_number_of_steps=500 --learning_rate=0.01 --learning_rate_decay_type=fixed "$@"
run train_image_classifier --train_dir="$train_dir/all" \
  --checkpoint_path="$train_dir/head" --batch_norm_decay=0.98 \
  --max_number_of_steps=500 --learning_rate=0.0001 --learning_rate_decay_type=fixed "$@"
run eval_image_classifier --dataset_split_name=validation \
  --checkpoint_path="$train_dir/all" --eval_dir="$train_dir/all/eval"
