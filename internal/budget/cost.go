package budget

// StepsPerUnit is the number of steps for one unit of the API server's cost of CEL: it grants 10 million units, about a second.
const StepsPerUnit = 10

// Affordable returns the units that CEL expressions may take outside the rule's budget: limit, or the remaining budget of the policy if
// that is less. What they took is charged with Beside.
func (m *Meter) Affordable(limit int64) int64 {
	return min(limit, m.Left(limit*StepsPerUnit)/StepsPerUnit+1)
}
