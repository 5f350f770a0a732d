// Package budget meters one rule evaluation: how many steps it takes and how many bytes it makes.
//
//	m := budget.New(ctx, budget.DefaultSteps, budget.DefaultBytes)
//	for _, e := range elements {
//		if err := m.Step(1); err != nil {
//			return err
//		}
//	}
//
// Go can neither stop a goroutine nor limit its memory from outside, so every loop of the language packages counts
// itself: the meter looks at the context every 1,024 steps and refuses to go on when a limit is passed. It does not
// measure time (the context's deadline does) and does not decide what an exhausted budget means (engine does).
//
// Floor 0 (leaf): imports value.
package budget
