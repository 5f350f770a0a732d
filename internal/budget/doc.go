// Package budget meters evaluations: how many steps they take and how many bytes they make, for each rule, for each policy and
// request, and for each request.
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
// An Account is what one policy may use for one request, drawn from what a Request allows to all of them. A Meter is charged
// to it rule by rule (Charge, Settle), so that counting costs the same with and without it. A Pacer, which the engine's
// caller may give, spreads the work of an account over time.
//
// Floor 0 (leaf): imports value.
package budget
