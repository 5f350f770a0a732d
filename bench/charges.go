package main

import (
	"fmt"
	"slices"
	"time"

	"ephor.invalid/ephor/bench/charges"
)

// mostCharged is the target for the ratio of time and charge, and mostCall that for the time of one evaluation.
const (
	mostCharged = 4.0
	mostCall    = 50 * time.Millisecond
)

// charges measures what each function, operator, macro and matcher takes beside what it is charged. A text selects the rows whose names
// contain it.
func (b *bench) charges(containing string) error {
	lines, step := charges.Measure(containing)
	for _, l := range lines {
		fmt.Println(l)
	}
	slices.SortStableFunc(lines, charges.Worse)
	fmt.Printf("\nthe twenty worst:\n")
	longest := time.Duration(0)
	for i, l := range lines {
		if i < 20 {
			fmt.Println(l)
		}
		longest = max(longest, l.Time)
	}
	if len(lines) == 0 {
		return fmt.Errorf("no row has %q in its name", containing)
	}
	fmt.Printf("\n%d rows, three sizes each; a step of the reference loop takes %.1f ns\n", len(lines)/3, step)
	b.row("charges, worst ratio", "x", lines[0].Ratio, mostCharged)
	b.row("charges, longest evaluation", "ms", float64(longest)/float64(time.Millisecond), float64(mostCall/time.Millisecond))
	b.print()
	return nil
}
