package price

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"ephor.invalid/ephor/internal/cel/values"
)

// Price is what the calls of one of the library's functions take: units by the API server's formula, and steps.
type Price struct {
	cost   cost
	charge charge
}

// Of returns the price of a function of the library.
func Of(function string) Price {
	p := Price{costs[function], charges[function]}
	if p.charge == nil {
		p.charge = parsed
	}
	if p.cost == costNothing && !fixedCost[function] {
		p.cost = costByLibrary
	}
	return p
}

// ByResult reports whether the units are known only after the call: then payResult charges them.
func (p Price) ByResult() bool { return p.cost == costByLibrary }

// Pay charges for a call before it is made, by the size of its arguments. It returns an error value if that is too much.
func (m *Meter) Pay(p Price, s *Sizes, l, r ref.Val, more []ref.Val) ref.Val {
	units := int64(0)
	if p.cost != costNothing {
		units = p.cost.of(l, r)
	}
	steps := p.charge(s, l, r, more)
	if units <= 1 && steps == 0 {
		return nil
	}
	if units > 1 {
		m.Spend(units)
	}
	if m.Charge(steps); m.Ended() {
		return types.WrapErr(ErrOutOfBudget)
	}
	return nil
}

// PayResult charges the units of a call that was made. It returns an error value if that is too much.
func (m *Meter) PayResult(function, overload string, args []ref.Val, result ref.Val) ref.Val {
	if m.Spend(libraryCost(function, overload, args, result)); m.Ended() {
		return types.WrapErr(ErrOutOfBudget)
	}
	return nil
}

// PayComparison charges for comparing a value that is no scalar, by the number of its values. It returns an error value if that is too much.
func (m *Meter) PayComparison(s *Sizes, v ref.Val) ref.Val {
	w, steps := 0, 0
	switch x := v.(type) {
	case *values.List:
		w = valuesInJSON([]any(*x))
	case *values.Map:
		w = valuesInJSON(map[string]any(*x))
	case traits.Lister, traits.Mapper, *types.Optional, *dynamic.ObjectVal, *mutation.JSONPatchVal:
		w = s.Of(v)
	case types.Bytes:
		steps = Steps(len(x), copiedBytes)
	case apiservercel.Quantity:
		steps = quantitySteps
	default:
		steps = Steps(sizeInBytes(v), parsedBytes)
	}
	if w > smallValues {
		m.Spend(costPerValue * int64(w))
	}
	if m.Charge(NodeSteps*w + steps); m.Ended() {
		return types.WrapErr(ErrOutOfBudget)
	}
	return nil
}
