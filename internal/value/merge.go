package value

import "maps"

// Merge is base with the keys of over put over it, map by map; anything but two maps is replaced. Neither is changed.
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
