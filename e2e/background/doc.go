// Package background tests the work of the background controller on a real API server: the lifecycle of generated objects, the changes of
// mutate rules with targets, and the failures, ends and bounds of work.
package background
