#!/usr/bin/env python3
"""Makes images.safetensors beside it: small image files of many kinds, and the pixels Pillow reads.

tests/golden/make_images.py   (made with Pillow 9.4 on libjpeg-turbo 2.1.5)

For each NAME: "NAME" the bytes of the file, "NAME:L", "NAME:RGB" and "NAME:RGBA" its pixels (H, W, C)
by Pillow. L of a JPEG is the brightness that libjpeg gives when asked for gray alone.
"""
import io
from pathlib import Path

from PIL import Image

import safetensors_file

WIDTH, HEIGHT = 19, 13


def picture():
    """Colours that vary smoothly, with a hard edge and some noise."""
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            noise = (x * 73 + y * 151 + x * y * 31) % 23
            image.putpixel((x, y), (min(255, 12 * x + noise), 19 * y, 230 if x + y < 15 else 3 * noise))
    return image


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def opened(content):
    return Image.open(io.BytesIO(content))


def pixels(content, mode):
    image = opened(content)
    if image.format == "JPEG" and mode == "L":
        image.draft("L", image.size)
    image = image.convert(mode)
    data = image.tobytes()
    return ("U8", (image.height, image.width, len(data) // image.width // image.height), data)


def main():
    rgb = picture()
    gray, palette = rgb.convert("L"), rgb.quantize(16)
    transparent = rgb.copy()
    transparent.putalpha(gray)
    files = {
        "jpeg 4:4:4": encoded(rgb, "JPEG", quality=90, subsampling="4:4:4"),
        "jpeg 4:2:2": encoded(rgb, "JPEG", quality=80, subsampling="4:2:2"),
        "jpeg 4:2:0": encoded(rgb, "JPEG", quality=70, subsampling="4:2:0"),
        "jpeg progressive": encoded(rgb, "JPEG", quality=85, progressive=True),
        "jpeg gray": encoded(gray, "JPEG", quality=90),
        "jpeg CMYK": encoded(rgb.convert("CMYK"), "JPEG", quality=95),
        "png RGB": encoded(rgb, "PNG"),
        "png RGBA": encoded(transparent, "PNG"),
        "png gray": encoded(gray, "PNG"),
        "png gray and alpha": encoded(transparent.convert("LA"), "PNG"),
        "png palette": encoded(palette, "PNG"),
        "png palette of 2 bits": encoded(rgb.quantize(4), "PNG", bits=2),
        "png palette and transparency": encoded(palette, "PNG", transparency=3),
        "png 1 bit": encoded(rgb.convert("1"), "PNG"),
        "bmp RGB": encoded(rgb, "BMP"),
        "bmp palette": encoded(palette, "BMP"),
        "bmp gray": encoded(gray, "BMP"),
        "bmp 1 bit": encoded(rgb.convert("1"), "BMP"),
        "pgm": encoded(gray, "PPM"),
        "ppm": encoded(rgb, "PPM"),
    }
    tensors = {}
    for name, content in files.items():
        tensors[name] = ("U8", (len(content),), content)
        for mode in ("L", "RGB", "RGBA"):
            # libjpeg gives no gray of CMYK.
            if (name, mode) != ("jpeg CMYK", "L"):
                tensors[f"{name}:{mode}"] = pixels(content, mode)
    safetensors_file.write(Path(__file__).parent / "images.safetensors", tensors)


if __name__ == "__main__":
    main()
