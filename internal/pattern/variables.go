package pattern

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
)

// position is the position of a part of the pattern.
type position struct {
	field  string // field path for diagnostics: spec.rules[0].validate.pattern.spec
	errors string // path in substitution errors, relative to the substituted document: /spec
	steps  []any  // keys and indexes below the pattern, from which the path of the variable @ starts
	parent string // the key (without anchor) above the map that contains this part, and the key of this part:
	key    string // together they identify metadata.labels and metadata.annotations
	depth  int
}

func (p position) under(full, bare string) position {
	return position{
		field: p.field + "." + full, errors: p.errors + "/" + full, steps: append(slices.Clip(p.steps), full),
		parent: p.key, key: bare, depth: p.depth + 1,
	}
}

func (p position) item(i int) position {
	index := strconv.Itoa(i)
	return position{
		field: p.field + "[" + index + "]", errors: p.errors + "/" + index, steps: append(slices.Clip(p.steps), i),
		parent: p.key, depth: p.depth + 1,
	}
}

// mayVary reports whether s may contain a variable, or the escape of one.
func mayVary(s string) bool { return strings.Contains(s, "{{") }

// variable creates the node for v, a string or a map whose keys contain variables: a slot that is filled for each
// match. It returns nil if v turns out to contain none.
func (c *compiler) variable(v any, at position) *node {
	t := template.Compile(v, template.Options{Path: at.errors, At: at.steps, Allowance: c.allowance})
	if _, static := t.Static(); static {
		return nil
	}
	for _, d := range t.Diags() {
		d.Path = at.field
		c.diags.Add(d)
	}
	c.templates = append(c.templates, t)
	return &node{kind: variableNode, slot: len(c.templates) - 1, at: &at, anchors: anchorsIn(v)}
}

// anchorsIn reports whether some key below v has an anchor.
func anchorsIn(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if kind, _ := parseKey(k); kind != noAnchor || anchorsIn(x) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, anchorsIn)
	}
	return false
}

// resolve evaluates all variables of the pattern, in document order. It evaluates them all before the match, because a
// variable that cannot be resolved is an error even if an anchor would have made it unnecessary.
func (p *Pattern) resolve(env *jmespath.Env, root jmespath.Root) ([]any, error) {
	if p.err != nil {
		return nil, substitution(p.err)
	}
	if len(p.templates) == 0 {
		return nil, nil
	}
	values := make([]any, len(p.templates))
	for i, t := range p.templates {
		v, err := t.Eval(env, root)
		if err != nil {
			return nil, substitution(err)
		}
		values[i] = v
	}
	return values, nil
}

// substitution adds the prefix to the error of a variable or reference, but not to that of an exhausted budget.
func substitution(err error) error {
	if errors.Is(err, budget.ErrExhausted) {
		return err
	}
	return fmt.Errorf("variable substitution failed: %w", err)
}

// settle returns n, or the node of its value in this match if n is a variable.
func (w *walk) settle(n *node) *node {
	if n.kind != variableNode {
		return n
	}
	v := w.values[n.slot]
	s, isText := v.(string)
	if isText {
		if known := w.late.get(s); known != nil {
			if w.explain && known.field != n.field { // the same value at another place
				here := *known
				here.field = n.field
				return &here
			}
			return known
		}
	}
	if err := w.charge(v); err != nil {
		if w.err == nil {
			w.err = err
		}
		return &node{kind: scalarNode}
	}
	c := &compiler{late: true}
	made := c.compile(v, *n.at)
	if len(c.diags) > 0 && w.err == nil {
		w.err = substitution(c.diags)
	}
	if isText {
		w.late.put(s, made)
	}
	return made
}

// charge charges the cost of compiling v: a node for each item, and a term for each alternative of a text.
func (w *walk) charge(v any) error {
	if s, isText := v.(string); isText {
		if err := w.meter.Step(32 + len(s)/4); err != nil {
			return err
		}
		if len(s) <= maxLateText {
			return nil
		}
		return w.meter.Bytes(termSize * (1 + strings.Count(s, "|") + strings.Count(s, "&")))
	}
	if err := w.meter.Text(v); err != nil {
		return err
	}
	return w.meter.Walk(v)
}

// termSize is the approximate size of a compiled alternative.
const termSize = 512

// lateNodes caches the compiled form of strings that variables gave. Most variables give the same few values again and
// again (an allowed registry, a list of alternatives from a ConfigMap).
type lateNodes struct {
	mu    sync.RWMutex
	nodes map[string]*node
}

const (
	maxLateNodes = 64
	maxLateText  = 512
)

func (l *lateNodes) get(s string) *node {
	if l == nil {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.nodes[s]
}

func (l *lateNodes) put(s string, n *node) {
	if l == nil || len(s) > maxLateText {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes == nil || len(l.nodes) >= maxLateNodes {
		l.nodes = make(map[string]*node, maxLateNodes)
	}
	l.nodes[s] = n
}
