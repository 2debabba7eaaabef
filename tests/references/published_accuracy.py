"""How accurate ResNet-20 is on what the published CIFAR-10-C generator makes of test images."""

IMAGES = 2_000
"""The first so many images of the test set."""
POINTS = 2.0
"""How far from the published generator our accuracy may lie."""
PUBLISHED = {
    "gaussian_noise": 24.9,
    "shot_noise": 30.7,
    "impulse_noise": 23.7,
    "defocus_blur": 59.4,
    "glass_blur": 43.3,
    "motion_blur": 60.0,
    "zoom_blur": 60.7,
    "snow": 69.3,
    "frost": 55.5,
    "fog": 66.4,
    "brightness": 86.7,
    "contrast": 26.4,
    "elastic_transform": 70.6,
    "pixelate": 39.7,
    "jpeg_compression": 70.7,
    "gaussian_blur": 41.1,
}
"""ResNet-20's accuracy in percent on what the published generator makes of the same images at severity 5."""
