// Package background tests what the background controller carries out, on a real API server: every row of the life cycle of
// generated objects, what mutate rules with targets change, and how work fails, ends and is kept
// within bounds.
package background
