package celenv

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// price is what the calls of one of the library's functions take: units by the API server's formula, and parts.
type price struct {
	cost   cost
	charge charge
}

// priceOf returns the price of a function of the library.
func priceOf(function string) price {
	p := price{costs[function], charges[function]}
	if p.charge == nil {
		p.charge = parsed
	}
	if p.cost == costNothing && !fixedCost[function] {
		p.cost = costByLibrary
	}
	return p
}

// byResult reports whether the units are known only after the call: then payResult charges them.
func (p price) byResult() bool { return p.cost == costByLibrary }

// pay charges for a call before it is made, by the size of its arguments. It returns an error value if that is too much.
func (m *meter) pay(p price, s *sizes, l, r ref.Val, more []ref.Val) ref.Val {
	units := int64(0)
	if p.cost != costNothing {
		units = p.cost.of(l, r)
	}
	parts := p.charge(s, l, r, more)
	if units <= 1 && parts == 0 {
		return nil
	}
	if units > 1 {
		m.spend(units)
	}
	if m.take(parts); m.ended() {
		return types.WrapErr(errOutOfBudget)
	}
	return nil
}

// payResult charges the units of a call that was made. It returns an error value if that is too much.
func (m *meter) payResult(function, overload string, args []ref.Val, result ref.Val) ref.Val {
	if m.spend(libraryCost(function, overload, args, result)); m.ended() {
		return types.WrapErr(errOutOfBudget)
	}
	return nil
}

// payComparison charges for comparing a value that is no scalar, by the number of its values. It returns an error value if that is too much.
func (m *meter) payComparison(s *sizes, v ref.Val) ref.Val {
	w, parts := 0, 0
	switch x := v.(type) {
	case jsonList:
		w = valuesInJSON([]any(x))
	case jsonMap:
		w = valuesInJSON(map[string]any(x))
	case traits.Lister, traits.Mapper, *types.Optional, *dynamic.ObjectVal, *mutation.JSONPatchVal:
		w = s.of(v)
	case types.Bytes:
		parts = len(x) / copiedPerPart
	case apiservercel.Quantity:
		parts = quantityParts
	default:
		parts = sizeInBytes(v) / parsedPerPart
	}
	if w > smallValues {
		m.spend(costPerValue * int64(w))
	}
	if m.take(w + parts); m.ended() {
		return types.WrapErr(errOutOfBudget)
	}
	return nil
}
