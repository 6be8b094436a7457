// Ends a long kernel early: after an error of another task, or on Ctrl-C.
#pragma once

namespace sparsenet {

// Throws if the kernel must end. Long tasks call this where they may stop, such as between the passes of a training:
// about once in a tenth of a second or more often, since a call costs nanoseconds.
void stop_point();

// Sets what `stop_point` calls on every thread; it may throw. Called once, at import.
void set_stop_hook(void (*hook)());

}  // namespace sparsenet
