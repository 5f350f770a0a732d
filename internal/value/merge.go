package value

import "maps"

// Merge returns base merged with over, map by map; over replaces other values. Neither is changed.
func Merge(base, over any) any {
	b, ok := base.(map[string]any)
	o, also := over.(map[string]any)
	if !ok || !also {
		return over
	}
	out := maps.Clone(b)
	for k, v := range o {
		if old, has := out[k]; has {
			v = Merge(old, v)
		}
		out[k] = v
	}
	return out
}
