package budget

// StepsPerCost is what one unit of the cost of CEL expressions counts as: the API server grants 10 million units, about a
// second.
const StepsPerCost = 10

// Affordable returns how much CEL expressions may cost beside the rule's budget: limit, or what is left to the policy when that is less.
func (m *Meter) Affordable(limit int64) int64 {
	return min(limit, m.Left(limit*StepsPerCost)/StepsPerCost+1)
}

// Cost counts what CEL expressions cost. It is no part of the rule's budget, since they have limits of their own; the error
// is that of Step.
func (m *Meter) Cost(cost int64) error { return m.Beside(cost * StepsPerCost) }
