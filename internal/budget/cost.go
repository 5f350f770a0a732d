package budget

// StepsPerCost is the number of steps for one unit of CEL cost: the API server grants 10 million units, about a second.
const StepsPerCost = 10

// Affordable returns how much CEL expressions may cost beside the rule's budget: limit, or the remaining budget of the policy if that is
// less.
func (m *Meter) Affordable(limit int64) int64 {
	return min(limit, m.Left(limit*StepsPerCost)/StepsPerCost+1)
}

// Cost counts the cost of CEL expressions. It is not part of the rule's budget, since expressions have limits of their own; the error is
// that of Step.
func (m *Meter) Cost(cost int64) error { return m.Beside(cost * StepsPerCost) }
