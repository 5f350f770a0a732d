package jmespath

import (
	"fmt"

	"ephor.invalid/ephor/internal/budget"
)

// powers are the binding powers of the operators: an expression continues while the next token binds more strongly than the
// enclosing construct. Tokens that are not listed end every expression. The not operator binds more strongly than the dot:
// !a.b is (!a).b.
var powers = [tCurrent + 1]int{tPipe: 1, tOr: 2, tAnd: 3, tEQ: 5, tNE: 5, tLT: 5, tLTE: 5, tGT: 5, tGTE: 5, tFlatten: 9, tStar: 20, tFilter: 21, tDot: 40,
	tNot: 45, tLbrace: 50, tLbracket: 55, tLparen: 60}

// projectionEnd is the power below which a token ends the right side of a projection.
const projectionEnd = 10

// parser is a Pratt parser over the grammar of JMESPath.
type parser struct {
	src    string
	tokens []token
	i      int
	depth  int
}

func parse(src string, q Quoting) (*node, error) {
	tokens, err := tokenize(src, q)
	if err != nil {
		return nil, err
	}
	p := &parser{src: src, tokens: tokens}
	n, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.at() != tEOF {
		return nil, p.errorf("Unexpected token at the end of the expression: %s", p.at())
	}
	return n, nil
}

func (p *parser) at() kind { return p.tokens[p.i].kind }

func (p *parser) after() kind { return p.tokens[min(p.i+1, len(p.tokens)-1)].kind }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != tEOF {
		p.i++
	}
	return t
}

func (p *parser) match(k kind) error {
	if p.at() != k {
		return p.errorf("Expected %s, received: %s", k, p.at())
	}
	p.next()
	return nil
}

func (p *parser) errorf(format string, args ...any) error {
	return &SyntaxError{Expression: p.src, Offset: p.tokens[p.i].pos, msg: fmt.Sprintf(format, args...)}
}

func (p *parser) expression(power int) (*node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > budget.MaxDepth {
		return nil, p.errorf("Expression nests deeper than %d levels", budget.MaxDepth)
	}
	n, err := p.prefix()
	for err == nil && power < powers[p.at()] {
		n, err = p.infix(n)
		if err == nil && n.depth > budget.MaxDepth {
			err = p.errorf("Expression nests deeper than %d levels", budget.MaxDepth)
		}
	}
	return n, err
}

// prefix parses the beginning of an expression.
func (p *parser) prefix() (*node, error) {
	t := p.next()
	switch t.kind {
	case tJSONLiteral:
		return (&node{kind: nLiteral, literal: t.value}).measure(), nil
	case tStringLiteral:
		return (&node{kind: nLiteral, literal: t.text}).measure(), nil
	case tUnquotedIdentifier:
		return (&node{kind: nField, name: t.text}).measure(), nil
	case tQuotedIdentifier:
		if p.at() == tLparen {
			return nil, p.errorf("Can't have quoted identifier as function name.")
		}
		return (&node{kind: nField, name: t.text}).measure(), nil
	case tCurrent:
		return explicit, nil
	case tStar:
		right := current
		if p.at() != tRbracket {
			var err error
			if right, err = p.projected(powers[tStar]); err != nil {
				return nil, err
			}
		}
		return (&node{kind: nValues, left: current, right: right}).measure(), nil
	case tFilter:
		return p.filter(current)
	case tFlatten:
		return p.flatten(current)
	case tLbrace:
		return p.hash()
	case tLbracket:
		switch {
		case p.at() == tNumber || p.at() == tColon:
			return p.index(current)
		case p.at() == tStar && p.after() == tRbracket:
			return p.project(current)
		}
		return p.list()
	case tNot:
		return p.wrap(nNot, powers[tNot])
	case tLparen:
		n, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		return n, p.match(tRparen)
	case tEOF:
		return nil, p.errorf("Incomplete expression")
	}
	p.i--
	return nil, p.errorf("Invalid token: %s", t.kind)
}

func (p *parser) wrap(k nodeKind, power int) (*node, error) {
	n, err := p.expression(power)
	if err != nil {
		return nil, err
	}
	return (&node{kind: k, left: n}).measure(), nil
}

// infix parses what follows the expression left.
func (p *parser) infix(left *node) (*node, error) {
	t := p.next()
	switch t.kind {
	case tDot:
		if p.at() == tStar {
			p.next()
			return p.join(nValues, left, p.projected, powers[tDot])
		}
		return p.join(nSub, left, p.afterDot, powers[tDot])
	case tPipe:
		return p.join(nPipe, left, p.expression, powers[tPipe])
	case tOr:
		return p.join(nOr, left, p.expression, powers[tOr])
	case tAnd:
		return p.join(nAnd, left, p.expression, powers[tAnd])
	case tEQ, tNE, tLT, tLTE, tGT, tGTE:
		n, err := p.join(nComparison, left, p.expression, powers[t.kind])
		if err == nil {
			n.operator = t.kind
		}
		return n, err
	case tFilter:
		return p.filter(left)
	case tFlatten:
		return p.flatten(left)
	case tLparen:
		if left.kind != nField {
			return nil, p.errorf("Invalid node as function name.")
		}
		return p.call(left.name)
	case tLbracket:
		if p.at() == tNumber || p.at() == tColon {
			return p.index(left)
		}
		if p.at() != tStar {
			return nil, p.errorf("Expected tStar, received: %s", p.at())
		}
		return p.project(left)
	}
	p.i--
	return nil, p.errorf("Unexpected token: %s", t.kind)
}

func (p *parser) join(k nodeKind, left *node, rest func(int) (*node, error), power int) (*node, error) {
	right, err := rest(power)
	if err != nil {
		return nil, err
	}
	return (&node{kind: k, left: left, right: right}).measure(), nil
}

// afterDot parses the right side of a dot.
func (p *parser) afterDot(power int) (*node, error) {
	switch p.at() {
	case tQuotedIdentifier, tUnquotedIdentifier, tStar:
		return p.expression(power)
	case tLbracket:
		p.next()
		return p.list()
	case tLbrace:
		p.next()
		return p.hash()
	}
	return nil, p.errorf("Expected identifier, lbracket, or lbrace")
}

// projected parses the right side of a projection, which is evaluated on each item.
func (p *parser) projected(power int) (*node, error) {
	switch {
	case powers[p.at()] < projectionEnd:
		return current, nil
	case p.at() == tLbracket || p.at() == tFilter:
		return p.expression(power)
	case p.at() == tDot:
		p.next()
		return p.afterDot(power)
	}
	return nil, p.errorf("Unexpected token: %s", p.at())
}

// project parses the rest of left[*]; the bracket is already read.
func (p *parser) project(left *node) (*node, error) {
	p.next() // the star
	if err := p.match(tRbracket); err != nil {
		return nil, err
	}
	return p.join(nProject, left, p.projected, powers[tStar])
}

func (p *parser) flatten(left *node) (*node, error) {
	return p.join(nProject, (&node{kind: nFlatten, left: left}).measure(), p.projected, powers[tFlatten])
}

func (p *parser) filter(left *node) (*node, error) {
	cond, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if err := p.match(tRbracket); err != nil {
		return nil, err
	}
	right := current
	if p.at() != tFlatten {
		if right, err = p.projected(powers[tFilter]); err != nil {
			return nil, err
		}
	}
	return (&node{kind: nFilter, left: left, right: right, cond: cond}).measure(), nil
}

// index parses the rest of left[1] or left[1:2:3]; the bracket is already read.
func (p *parser) index(left *node) (*node, error) {
	if p.at() == tNumber && p.after() != tColon {
		n := &node{kind: nIndex, left: left, number: p.next().number}
		return n.measure(), p.match(tRbracket)
	}
	n := &node{kind: nSlice, left: left}
	for part := 0; p.at() != tRbracket; {
		switch {
		case p.at() == tColon && part < 2:
			p.next()
			part++
		case p.at() == tNumber && n.slice[part] == nil:
			number := p.next().number
			n.slice[part] = &number
		default:
			return nil, p.errorf("Expected tColon or tNumber, received: %s", p.at())
		}
	}
	p.next()
	return p.join(nProject, n.measure(), p.projected, powers[tStar])
}

// list parses the rest of [a, b]; the bracket is already read.
func (p *parser) list() (*node, error) {
	n := &node{kind: nList}
	for {
		item, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
		if p.at() == tRbracket {
			p.next()
			return n.measure(), nil
		}
		if err := p.match(tComma); err != nil {
			return nil, err
		}
	}
}

// hash parses the rest of {k: a, l: b}; the brace is already read.
func (p *parser) hash() (*node, error) {
	n := &node{kind: nHash}
	for {
		key := p.next()
		if key.kind != tUnquotedIdentifier && key.kind != tQuotedIdentifier {
			return nil, p.errorf("Expected tQuotedIdentifier or tUnquotedIdentifier")
		}
		if err := p.match(tColon); err != nil {
			return nil, err
		}
		item, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		n.keys, n.items = append(n.keys, key.text), append(n.items, item)
		if p.at() == tRbrace {
			p.next()
			return n.measure(), nil
		}
		if err := p.match(tComma); err != nil {
			return nil, err
		}
	}
}

// call parses the rest of name(a, b); the parenthesis is already read. A comma after the last argument is allowed.
func (p *parser) call(name string) (*node, error) {
	n := &node{kind: nCall, name: name}
	for p.at() != tRparen {
		argument := p.expression
		if p.at() == tExpref { // &expression is only allowed as an argument
			p.next()
			argument = func(power int) (*node, error) { return p.wrap(nExpref, power) }
		}
		item, err := argument(0)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
		if p.at() == tComma {
			p.next()
		} else if p.at() != tRparen {
			return nil, p.errorf("Expected tRparen, received: %s", p.at())
		}
	}
	p.next()
	return n.measure(), nil
}
