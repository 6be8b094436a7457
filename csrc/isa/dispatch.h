// The instruction sets of this build, and the choice of one that this CPU can run.
#pragma once

#include <string>
#include <vector>

namespace sparsenet {

std::vector<std::string> isa_available();  // from the baseline to the best
std::string isa_used();
bool has_bf16();  // whether the one in use multiplies bfloat16 faster than float32
// Throws std::invalid_argument if this build or this CPU lacks it, or the system refuses it.
void set_isa(const std::string& name);

// Uses what SPARSENET_ISA names, or else the best one that the system allows. Called once, at import of the module.
void choose_isa();

}  // namespace sparsenet
