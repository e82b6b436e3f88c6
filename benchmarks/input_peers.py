"""The same work in other libraries, as a process of its own that `input_speed` talks to.

It needs no TensorFlow, so that it can run in an environment where torchvision is and TensorFlow is
not. It first says `ready`, or why it cannot work. For each line on stdin it preprocesses that many
images and answers with the CPU seconds.
"""

import io
import pickle
import sys
import time

SIZE = 224


def _torchvision_steps(colours, is_training):
    from torchvision.transforms import v2

    if not is_training:
        return [v2.Resize(256), v2.CenterCrop(SIZE)]
    steps = [v2.RandomResizedCrop(SIZE, scale=(0.05, 1.0)), v2.RandomHorizontalFlip()]
    return [*steps, v2.ColorJitter(32 / 255, 0.5, 0.5, 0.2)] if colours else steps


def _torchvision(colours, is_training):
    """Pillow decodes, torchvision transforms, as its documentation of training has it."""
    import torch
    from PIL import Image
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]
    transform = v2.Compose(_torchvision_steps(colours, is_training) + last)
    return lambda encoded: transform(Image.open(io.BytesIO(encoded)).convert("RGB")).numpy()


def _torchvision_tensors(colours, is_training):
    """torchvision decodes too, and all its transforms work on tensors."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]
    transform = v2.Compose(_torchvision_steps(colours, is_training) + last)

    def run(encoded):
        data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
        return transform(decode_jpeg(data, mode=ImageReadMode.RGB)).numpy()

    return run


def _albumentations(colours, is_training):
    """OpenCV decodes, albumentations transforms."""
    import albumentations
    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    last = [albumentations.Normalize([0.5] * 3, [0.5] * 3)]
    if is_training:
        steps = [
            albumentations.RandomResizedCrop((SIZE, SIZE), scale=(0.05, 1.0)),
            albumentations.HorizontalFlip(),
        ]
        if colours:
            steps.append(albumentations.ColorJitter(32 / 255, 0.5, 0.5, 0.2, p=1.0))
    else:
        steps = [albumentations.SmallestMaxSize(256), albumentations.CenterCrop(SIZE, SIZE)]
    transform = albumentations.Compose(steps + last)

    def run(encoded):
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        return transform(image=cv2.cvtColor(image, cv2.COLOR_BGR2RGB))["image"]

    return run


PEERS = {
    "torchvision": _torchvision,
    "torchvision-tensors": _torchvision_tensors,
    "albumentations": _albumentations,
}


def main():
    name, colours, is_training, batch_size = sys.argv[1:]
    files = pickle.load(sys.stdin.buffer)
    try:
        run = PEERS[name](colours == "colours", is_training == "train")
        run(files[0])
    except (ImportError, OSError, RuntimeError) as error:
        print(" ".join(str(error).split()), flush=True)
        return
    import numpy as np

    print("ready", flush=True)
    for line in sys.stdin.buffer:
        count, size = int(line), int(batch_size)
        start = time.process_time()
        for first in range(0, count, size):
            numbers = range(first, min(first + size, count))
            np.stack([run(files[number % len(files)]) for number in numbers])
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
