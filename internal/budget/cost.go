package budget

// StepsPerCost is the number of steps for one unit of CEL cost: the API server grants 10 million units, about a second.
const StepsPerCost = 10

// Affordable returns the cost that CEL expressions may have outside the rule's budget: limit, or the remaining budget of the policy if
// that is less.
func (m *Meter) Affordable(limit int64) int64 {
	return min(limit, m.Left(limit*StepsPerCost)/StepsPerCost+1)
}

// Cost counts the cost of CEL expressions. It does not count for the rule's budget, since expressions have their own limits. Its errors
// are those of Step.
func (m *Meter) Cost(cost int64) error { return m.Beside(cost * StepsPerCost) }
