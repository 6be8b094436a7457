// Which instruction sets this build has, which of them this CPU runs, and which one is in use.
#pragma once

#include <string>
#include <vector>

namespace sparsenet {

std::vector<std::string> isa_available();  // from plain to best
std::string isa_used();
bool has_bf16();                        // whether the level in use multiplies bfloat16 faster than floats
void set_isa(const std::string& name);  // throws std::invalid_argument if this build or CPU lacks it

// Takes SPARSENET_ISA, or else the best level. Called once, when the module is imported.
void choose_isa();

}  // namespace sparsenet
