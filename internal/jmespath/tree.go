package jmespath

import (
	"fmt"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Tree is the syntax tree of an expression for people: `jp parse` prints it. Its nodes have the names that JMESPath
// tools use.
type Tree struct {
	Kind     string // such as ASTPipe
	Value    string // written as a literal; empty if the node has none
	Children []Tree
}

// Parse parses an expression without compiling it. The error is a *SyntaxError.
func Parse(src string) (Tree, error) {
	n, err := parse(src, Quoting{})
	if err != nil {
		return Tree{}, err
	}
	return n.tree(), nil
}

// Dump returns the tree with one node or bracket on a line, indented by two blanks for each level.
func (t Tree) Dump() string {
	var b strings.Builder
	t.dump(&b, "")
	return b.String()
}

func (t Tree) dump(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s {\n", indent, t.Kind)
	if t.Value != "" {
		fmt.Fprintf(b, "%s  value: %s\n", indent, t.Value)
	}
	if len(t.Children) > 0 {
		fmt.Fprintf(b, "%s  children: {\n", indent)
		for _, c := range t.Children {
			c.dump(b, indent+"    ")
		}
		fmt.Fprintf(b, "%s  }\n", indent)
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// treeKinds are the names of the nodes that consist of a name only.
var treeKinds = map[nodeKind]string{
	nField: "ASTField", nLiteral: "ASTLiteral", nSub: "ASTSubexpression", nPipe: "ASTPipe", nFlatten: "ASTFlatten",
	nProject: "ASTProjection", nValues: "ASTValueProjection", nFilter: "ASTFilterProjection", nList: "ASTMultiSelectList",
	nHash: "ASTMultiSelectHash", nCall: "ASTFunctionExpression", nExpref: "ASTExpRef", nOr: "ASTOrExpression",
	nAnd: "ASTAndExpression", nNot: "ASTNotExpression", nComparison: "ASTComparator",
}

func (n *node) tree() Tree {
	t := Tree{Kind: treeKinds[n.kind]}
	switch n.kind {
	case nCurrent:
		if n == explicit {
			return Tree{Kind: "ASTCurrentNode"}
		}
		return Tree{Kind: "ASTIdentity"}
	case nIndex:
		return Tree{Kind: "ASTIndexExpression", Children: []Tree{n.left.tree(), {Kind: "ASTIndex", Value: strconv.Itoa(n.number)}}}
	case nSlice:
		return Tree{Kind: "ASTIndexExpression", Children: []Tree{n.left.tree(), {Kind: "ASTSlice", Value: sliceText(n.slice)}}}
	case nField, nCall:
		t.Value = strconv.Quote(n.name)
	case nLiteral:
		t.Value = literalText(n.literal)
	case nComparison:
		t.Value = n.operator.String()
	}
	for _, c := range []*node{n.left, n.right, n.cond} {
		if c != nil {
			t.Children = append(t.Children, c.tree())
		}
	}
	for i, c := range n.items {
		child := c.tree()
		if n.kind == nHash {
			child = Tree{Kind: "ASTKeyValPair", Value: strconv.Quote(n.keys[i]), Children: []Tree{child}}
		}
		t.Children = append(t.Children, child)
	}
	return t
}

func literalText(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return value.JSON(v)
}

// sliceText returns a slice as it is written between brackets.
func sliceText(parts [3]*int) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p != nil {
			texts[i] = strconv.Itoa(*p)
		}
	}
	return strings.Join(texts, ":")
}

// Literal returns the text of a literal; ok is false for other nodes, and for literals that are not texts.
func (t Tree) Literal() (text string, ok bool) {
	if t.Kind != "ASTLiteral" {
		return "", false
	}
	text, err := strconv.Unquote(t.Value)
	return text, err == nil
}
