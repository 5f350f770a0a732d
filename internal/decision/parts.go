package decision

import "crypto/sha256"

// The names of the parts of a request.
const objectPart, oldObjectPart, optionsPart = "/object", "/oldObject", "/options"

// part is an object of a request without what is secret.
type part struct {
	size int    // of the text, in bytes
	text string // empty where there is a body
	body *Body
	cut  []string
	// hidden are the values that were replaced, in every form that a text may have them in.
	hidden []string
}

// takeBody makes the body of a part.
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

// parts are those of the last requests. The same object is often reviewed again: by another webhook, and when a request is repeated.
type parts struct {
	window[*part]
	bodies bool   // whether requests are recorded; else only what was cut is kept
	room   []byte // for a copy of a text
	// The text for which a digest is known, and the digest.
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

// cost estimates the bytes of memory that a part takes.
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

// of returns the part of that name for a text. It calls cut for one that is not known. The nil parts know none.
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

// digested says that a text has this keyed digest, so that key need not make another one.
func (k *parts) digested(text string, sum [16]byte) { k.text, k.sum = text, sum }

// shortOptions is the length up to which the text of options is its own key.
const shortOptions = 256

// key returns the key of a text. Keys of one kind are never equal to those of another: their lengths or what follows the name differ.
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
