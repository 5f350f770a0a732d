// Package price says what CEL expressions cost, and limits it.
//
//	m := price.NewMeter(ctx, price.Budget)
//	if err := m.Pay(price.Of("join"), &sizes, list, separator, nil); err != nil { // before the call
//		return err
//	}
//
// One Meter counts everything, in two accounts, because two limits hold:
//
//	units  what the API server counts, by its formulas (units.go). Its limits decide whether a policy that the API server would stop is
//	       stopped here as well, so units cannot be expressed in another measure.
//	parts  time (charge.go): the API server's prices are no upper bound for it. A part takes less than 100 ns.
//
// Everything else is converted to parts, by the constants in charge.go and meter.go: bytes that are copied, scanned or parsed, elements that are
// copied, steps of package budget (10 to a part), values that are counted (sizes.go). A Limit is no price: it refuses a call whose result or work
// would be too large for any budget (limits.go). `go run ./bench charges` compares the charges with the time of the calls.
//
// Floor 0 (leaf): imports budget, cel/values and compilecost.
package price
