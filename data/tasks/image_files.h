// Images as examples of classification: the grey of each pixel, 0 to 255, row by row. The forms in
// which Long Range Arena (Tay et al., ICLR 2021) takes CIFAR-10 (Krizhevsky 2009) and Pathfinder
// (Linsley et al., NeurIPS 2018).
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

/// A binary batch of CIFAR-10 (data_batch_1.bin, test_batch.bin; maybe compressed): for each image
/// a byte for its class and 1024 bytes each of red, green and blue. BadRow "file: image 7 …"
/// (counted from 0) for a class beyond 9; InputError for a file of another size.
std::unique_ptr<ExampleReader> open_cifar10(const std::filesystem::path& file, Labelled labelled);

/// A metadata file of Pathfinder (metadata/0.npy, which is text): a line an image, "imgs/0
/// sample_0.png 0 1 …" with folder, file and, as the fourth word, the label 0 or 1. Images lie
/// below the folder above `file`'s; all are of one size. BadRow "file:line: …" for a line without
/// these words and for an image that cannot be read.
std::unique_ptr<ExampleReader> open_pathfinder(const std::filesystem::path& file,
                                               Labelled labelled);

/// Grey of a colour, as TensorFlow's rgb_to_grayscale has it: floor(255.5 / 255 · (0.2989 red +
/// 0.5870 green + 0.1140 blue)); of a grey colour that grey.
std::uint8_t grey(std::uint8_t red, std::uint8_t green, std::uint8_t blue);

}  // namespace nystrom
