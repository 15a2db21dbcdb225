// Images as examples of classification: the grey value of each pixel, 0 to 255, row by row. The
// formats are those of Long Range Arena (Tay et al., ICLR 2021): CIFAR-10 (Krizhevsky 2009) and
// Pathfinder (Linsley et al., NeurIPS 2018).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/tasks/examples.h"

namespace nystrom {

/// The labels of CIFAR-10 in the order of their numbers: airplane, automobile, …
std::vector<std::string> cifar10_classes();

/// Opens a binary batch of CIFAR-10 (data_batch_1.bin, test_batch.bin), which may be compressed.
/// Each image is a byte for its class and 1024 bytes each of red, green and blue. Throws a BadRow
/// "file: image 7 …" (from 0) for a class beyond 9, and an InputError for a file of another size.
std::unique_ptr<ExampleReader> open_cifar10(const std::filesystem::path& file, Labelled labelled);

/// Opens a metadata file of Pathfinder (metadata/0.npy, which is text). Each line is an image,
/// "imgs/0 sample_0.png 0 1 …": folder, file and, as the fourth word, the label 0 or 1. Images are
/// below the parent of `file`'s folder and have one size. Throws a BadRow "file:line: …" for a line
/// without these words and for an unreadable image.
std::unique_ptr<ExampleReader> open_pathfinder(const std::filesystem::path& file,
                                               Labelled labelled);

/// The grey value of a colour, by TensorFlow's rgb_to_grayscale: floor(255.5 / 255 · (0.2989 red +
/// 0.5870 green + 0.1140 blue)). A grey colour keeps its value.
std::uint8_t grey(std::uint8_t red, std::uint8_t green, std::uint8_t blue);

}  // namespace nystrom
