package decision

import "crypto/sha256"

// The names of the parts of a request.
const objectPart, oldObjectPart, optionsPart = "/object", "/oldObject", "/options"

// part is an object of a request without its secret values.
type part struct {
	size int    // of the text, in bytes
	text string // empty if there is a body
	body *Body
	cut  []string
	// hidden has the replaced values, in every form in which a text may contain them.
	hidden []string
}

// takeBody sets the body of a part.
func (p *part) takeBody() error {
	if p.body != nil {
		return nil
	}
	body, err := newBody(p.text)
	if err == nil {
		p.body, p.text = body, ""
	}
	return err
}

// parts has the parts of the last requests. The same object is often reviewed again: by another webhook, and when a client repeats a request.
type parts struct {
	window[*part]
	bodies bool   // requests are recorded; otherwise only the replaced values are kept
	room   []byte // buffer for a copy of a text
	// A text whose digest is known, and the digest.
	text string
	sum  [16]byte
}

// Limits of a generation of parts.
const (
	keptParts     = 512
	keptPartBytes = 1 << 20
)

func newParts(bodies bool) *parts {
	return &parts{window: window[*part]{max: keptParts, maxBytes: keptPartBytes}, bodies: bodies}
}

// cost estimates the memory of a part in bytes.
func (p *part) cost() int {
	out := 256
	if p.body != nil {
		out += len(p.body.Deflated)
	}
	for _, list := range [][]string{p.cut, p.hidden} {
		for _, s := range list {
			out += 16 + len(s)
		}
	}
	return out
}

// of returns the part with a name and a text. If the part is not known, it calls cut to make it. The nil parts know no part.
func (k *parts) of(name, text string, cut func() (*part, error)) (*part, error) {
	if k == nil {
		return cut()
	}
	key := k.key(name, text)
	if p, known := k.get(key); known {
		return p, nil
	}
	p, err := cut()
	if err != nil || p.size > maxRequest {
		return p, err
	}
	if !k.bodies {
		p.text = ""
	} else if err := p.takeBody(); err != nil {
		return nil, err
	}
	k.add(key, p, p.cost())
	return p, nil
}

// digested sets the keyed digest of a text, so that key need not compute another one.
func (k *parts) digested(text string, sum [16]byte) { k.text, k.sum = text, sum }

// shortOptions is the length up to which the text of options is its own key.
const shortOptions = 256

// key returns the key of a text. Keys of different kinds are never equal: their lengths or the bytes after the name differ.
func (k *parts) key(name, text string) string {
	switch {
	case name == optionsPart && len(text) <= shortOptions:
		return name + " " + text
	case text == k.text:
		return name + ":" + string(k.sum[:])
	}
	k.room = append(k.room[:0], text...)
	sum := sha256.Sum256(k.room)
	if cap(k.room) > maxRequest {
		k.room = nil
	}
	return name + "=" + string(sum[:])
}
