//! The simulation of requests: random lives, and the bugs that it must find. One program, because each links the planner.

mod planted_bugs;
mod random;
