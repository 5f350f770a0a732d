package patch

import "reflect"

// Merges records what merging learns about a value while several overlays are applied to it, as a loop over a list does:
// which maps and lists below it are already normalized, where the elements of its lists are, and which parts are not
// shared yet, so that they may be changed in place. Otherwise each merge would read the whole of every list. The zero
// Merges is empty and ready; it must not be used after the patched value was passed to other code.
type Merges struct {
	maps  map[uintptr]*knownMap
	lists map[*any]*knownList // by their first element
}

// knownMap is a map that was examined. It is kept alive, so that no other map gets its identity.
type knownMap struct {
	m   map[string]any
	s   *schema // all lists below are normalized by this schema; nil if that is unknown
	own bool
}

// knownList is a list that is normalized, together with everything below it.
type knownList struct {
	list   []any
	s      *schema
	own    bool
	places map[string]int // positions of elements by their keys; others may have moved to the front since then
	texts  bool           // all keys are texts
}

// ordered records that everything below m is normalized.
func (in *Merges) ordered(m map[string]any, s *schema) {
	if in != nil {
		in.known(m).s = s
	}
}

// isOrdered reports whether everything below v is normalized.
func (in *Merges) isOrdered(v any, s *schema) bool {
	if in == nil || s == nil {
		return false
	}
	switch x := v.(type) {
	case map[string]any:
		k := in.maps[identity(x)]
		return k != nil && k.s == s
	case []any:
		return in.listOf(x, s) != nil
	}
	return false
}

func (in *Merges) known(m map[string]any) *knownMap {
	k := in.maps[identity(m)]
	if k == nil {
		if in.maps == nil {
			in.maps = map[uintptr]*knownMap{}
		}
		k = &knownMap{m: m}
		in.maps[identity(m)] = k
	}
	return k
}

// owns reports whether m may be changed.
func (in *Merges) owns(m map[string]any) bool {
	if in == nil {
		return false
	}
	k := in.maps[identity(m)]
	return k != nil && k.own
}

// own records that m was created here.
func (in *Merges) own(m map[string]any) {
	if in != nil {
		in.known(m).own = true
	}
}

// disordered reverts ordered.
func (in *Merges) disordered(m map[string]any) {
	if in != nil {
		in.known(m).s = nil
	}
}

// listOf returns what is known about a list; s is its schema, nil for any.
func (in *Merges) listOf(list []any, s *schema) *knownList {
	if in == nil || len(list) == 0 {
		return nil
	}
	k := in.lists[&list[0]]
	if k == nil || len(k.list) != len(list) || &k.list[0] != &list[0] || s != nil && k.s != s {
		return nil
	}
	return k
}

// orderedList records that a list, with everything below it, is normalized.
func (in *Merges) orderedList(list []any, s *schema, own bool) {
	if in != nil && len(list) > 0 {
		in.remember(&knownList{list: list, s: s, own: own})
	}
}

func (in *Merges) remember(k *knownList) {
	if in.lists == nil {
		in.lists = map[*any]*knownList{}
	}
	in.lists[&k.list[0]] = k
}

// indexed reports whether each element is a map with a distinct key, and records their positions.
func (k *knownList) indexed() bool {
	if k.places != nil {
		return true
	}
	if len(k.s.keys) != 1 {
		return false
	}
	places, ok := byKey(k.list, k.s.keys[0])
	if !ok {
		return false
	}
	k.places, k.texts = places, true
	for _, e := range k.list {
		if _, text := e.(map[string]any)[k.s.keys[0]].(string); !text {
			k.texts = false
		}
	}
	return true
}

// find returns the position of the element with the key, -1 if there is none.
func (k *knownList) find(text string) int {
	at, has := k.places[text]
	if !has {
		return -1
	}
	// Elements only move to the front. So those after the last one that moved have not changed position, and a loop from
	// the back always finds the next one at the end.
	for _, at := range [2]int{at, len(k.list) - 1} {
		if k.textAt(at) == text {
			k.places[text] = at
			return at
		}
	}
	for i := range k.list {
		t := k.textAt(i)
		k.places[t] = i
		if t == text {
			return i
		}
	}
	return -1
}

func (k *knownList) textAt(i int) string {
	return keyText(k.list[i].(map[string]any), k.s.keys[0])
}

// merge merges a patch into the list, as orderlyMerge does, at a cost that hardly depends on the length of the list. ok is
// false if the patch needs the slow path; then nothing was changed.
func (k *knownList) merge(m *merger, patch []any) (out []any, ok bool, err error) {
	if !k.indexed() {
		return nil, false, nil
	}
	key := k.s.keys[0]
	if _, ok := byKey(patch, key); !ok {
		return nil, false, nil
	}
	for _, e := range patch {
		if _, has := e.(map[string]any)[directiveKey]; has {
			return nil, false, nil
		}
	}
	if err := m.meter.Step(len(patch) + len(k.list)/stepsPerMove); err != nil {
		return nil, false, err
	}
	messy := m.messy
	merged := make([]any, len(patch))
	for i, e := range patch {
		old := none
		if at := k.find(keyText(e.(map[string]any), key)); at >= 0 {
			old = k.list[at]
		}
		// e has the key, so the result is a map that has it, too.
		if merged[i], _, err = m.value(old, e, k.s.elements()); err != nil {
			return nil, false, err
		}
	}
	for i := len(patch) - 1; i >= 0; i-- { // to the front, the first one last
		k.put(keyText(patch[i].(map[string]any), key), merged[i])
	}
	if m.messy == messy {
		m.in.remember(k)
	} else {
		delete(m.in.lists, &k.list[0])
	}
	return k.list, true, nil
}

// stepsPerMove is the number of elements that are moved, or read, in the time of one step.
const stepsPerMove = 16

// put moves an element to the front, or inserts it there.
func (k *knownList) put(text string, element any) {
	at := k.find(text)
	if at == 0 && same(k.list[0], element) {
		return
	}
	if !k.own {
		k.list, k.own = append(make([]any, 0, len(k.list)+1), k.list...), true
	}
	if at < 0 {
		k.list = append(k.list, nil)
		at = len(k.list) - 1
	}
	copy(k.list[1:at+1], k.list[:at])
	k.list[0] = element
	k.places[text] = 0
	if _, isText := element.(map[string]any)[k.s.keys[0]].(string); !isText {
		k.texts = false
	}
}

// lookup finds an element of a list by a member that is its key and is a text in all elements. known is false if the list
// must be searched.
func (in *Merges) lookup(list []any, key, text string) (element any, found, known bool) {
	k := in.listOf(list, nil)
	if k == nil || !k.indexed() || !k.texts || k.s.keys[0] != key {
		return nil, false, false
	}
	if at := k.find(text); at >= 0 {
		return k.list[at], true, true
	}
	return nil, false, true
}

// identity returns the identity of a map.
func identity(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }
