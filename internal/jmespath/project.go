package jmespath

// compileProject compiles left[*].right and similar projections: right is evaluated on each item of a list. Items for
// which it gives null or lacks a key are left out. If the left side is missing or not a list, the projection is null.
func compileProject(n *node) eval {
	left, right := tolerant(compile(n.left)), compile(n.right)
	if n.right.kind == nCurrent {
		right = nil
	}
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			return nil, nil
		}
		if err := env.items(len(list)); err != nil {
			return nil, err
		}
		if right == nil {
			return withoutNull(list), nil
		}
		out := make([]any, 0, len(list))
		for _, item := range list {
			if out, err = collect(env, out, right, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

func collect(env *Env, out []any, right eval, item any) ([]any, error) {
	r, err := right(env, item)
	if err != nil {
		if isUnknownKey(err) {
			return out, nil
		}
		return nil, err
	}
	if r != nil {
		out = append(out, r)
	}
	return out, nil
}

// withoutNull returns the list without its nulls; the list itself if it has none.
func withoutNull(list []any) []any {
	for i, item := range list {
		if item != nil {
			continue
		}
		out := append(make([]any, 0, len(list)-1), list[:i]...)
		for _, item := range list[i+1:] {
			if item != nil {
				out = append(out, item)
			}
		}
		return out
	}
	return list
}

func compileFilter(n *node) eval {
	left, right, cond := lenient(compile(n.left)), compile(n.right), tolerant(compile(n.cond))
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			return nil, nil
		}
		if err := env.items(len(list)); err != nil {
			return nil, err
		}
		out := []any{}
		for _, item := range list {
			holds, err := cond(env, item)
			if err != nil {
				return nil, err
			}
			if isFalse(holds) {
				continue
			}
			if out, err = collect(env, out, right, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// compileValues compiles left.*, in the order of the keys.
func compileValues(n *node) eval {
	left, right := lenient(compile(n.left)), compile(n.right)
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		if v, err = whole(v); err != nil {
			return nil, err
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, nil
		}
		if err := env.items(len(m)); err != nil {
			return nil, err
		}
		keys, err := env.sortedKeys(m)
		if err != nil {
			return nil, err
		}
		out := make([]any, 0, len(m))
		for _, k := range keys {
			if out, err = collect(env, out, right, m[k]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// compileFlatten compiles left[]: the items of the items that are lists, and the others unchanged. As in Kyverno, a
// function on the left that fails on its data makes the whole result null (containers[].resources.keys(@)[] if one
// container is null).
func compileFlatten(n *node) eval {
	left := lenient(compile(n.left))
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			return nil, nil
		}
		total, nested := 0, false
		for _, item := range list {
			if inner, ok := item.([]any); ok {
				nested = true
				total += len(inner)
			} else {
				total++
			}
		}
		if err := env.items(total); err != nil {
			return nil, err
		}
		if !nested {
			return list, nil
		}
		out := make([]any, 0, total)
		for _, item := range list {
			if inner, ok := item.([]any); ok {
				out = append(out, inner...)
			} else {
				out = append(out, item)
			}
		}
		return out, nil
	}
}

// compileIndex compiles left[n]; a negative n counts from the end, and a missing item gives null.
func compileIndex(n *node) eval {
	left, number := compile(n.left), n.number
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		list, _ := v.([]any)
		i := number
		if i < 0 {
			i += len(list)
		}
		if i < 0 || i >= len(list) {
			return nil, nil
		}
		return list[i], nil
	}
}

func compileSlice(n *node) eval {
	left, slice := compile(n.left), n.slice
	return func(env *Env, v any) (any, error) {
		v, err := left(env, v)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			return nil, nil
		}
		start, stop, step, err := bounds(slice, len(list))
		if err != nil {
			return nil, err
		}
		if err := env.items(len(list)); err != nil {
			return nil, err
		}
		out := []any{}
		if step > 0 {
			for i := start; i < stop; i += step {
				out = append(out, list[i])
			}
		} else {
			for i := start; i > stop; i += step {
				out = append(out, list[i])
			}
		}
		return out, nil
	}
}

// bounds computes the indexes of a slice of a list of n items, as Python does.
func bounds(slice [3]*int, n int) (start, stop, step int, err error) {
	step = 1
	if slice[2] != nil {
		step = *slice[2]
	}
	if step == 0 {
		return 0, 0, 0, errZeroStep
	}
	// No index needs to be further than just beyond the list, nor does a step.
	step = min(max(step, -n-1), n+1)
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(part *int, missing int) int {
		if part == nil {
			return missing
		}
		i := *part
		if i < 0 {
			i = max(i, -n-1) + n
		}
		return min(max(i, low), high)
	}
	if step > 0 {
		return clamp(slice[0], low), clamp(slice[1], high), step, nil
	}
	return clamp(slice[0], high), clamp(slice[1], low), step, nil
}
