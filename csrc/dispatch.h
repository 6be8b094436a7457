// Which instruction sets this build has, which of them this CPU runs, and which one is in use.
#pragma once

#include <string>
#include <vector>

namespace sparsenet {

std::vector<std::string> isa_available();  // from plain to best
std::string isa_used();
bool has_bf16();  // whether the level in use multiplies bfloat16 faster than floats
// Throws std::invalid_argument if this build or CPU lacks it, or the system refuses it.
void set_isa(const std::string& name);

// Takes SPARSENET_ISA, or else the best level that the system grants. Called once, when the module is imported.
void choose_isa();

}  // namespace sparsenet
