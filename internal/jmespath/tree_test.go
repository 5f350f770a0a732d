package jmespath

import (
	"errors"
	"testing"
)

func TestTreeDump(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"a | b", `ASTPipe {
  children: {
    ASTField {
      value: "a"
    }
    ASTField {
      value: "b"
    }
  }
}
`},
		{"@", "ASTCurrentNode {\n}\n"},
		{"`null`", "ASTLiteral {\n  value: null\n}\n"},
		{"[1:]", `ASTProjection {
  children: {
    ASTIndexExpression {
      children: {
        ASTIdentity {
        }
        ASTSlice {
          value: 1::
        }
      }
    }
    ASTIdentity {
    }
  }
}
`},
		{"a[?b > `1`].{k: max_by(@, &c)}", `ASTFilterProjection {
  children: {
    ASTField {
      value: "a"
    }
    ASTMultiSelectHash {
      children: {
        ASTKeyValPair {
          value: "k"
          children: {
            ASTFunctionExpression {
              value: "max_by"
              children: {
                ASTCurrentNode {
                }
                ASTExpRef {
                  children: {
                    ASTField {
                      value: "c"
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
    ASTComparator {
      value: tGT
      children: {
        ASTField {
          value: "b"
        }
        ASTLiteral {
          value: 1
        }
      }
    }
  }
}
`},
	} {
		tree, err := Parse(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		if got := tree.Dump(); got != c.want {
			t.Errorf("%s gives\n%s", c.src, got)
		}
	}
	var syntax *SyntaxError
	if _, err := Parse("a."); !errors.As(err, &syntax) {
		t.Errorf("a. gives %v", err)
	}
}

// Every kind of node has a name.
func TestTreeKinds(t *testing.T) {
	for k := nCurrent; k <= nComparison; k++ {
		if treeKinds[k] == "" && k != nCurrent && k != nIndex && k != nSlice {
			t.Errorf("node kind %d has no name", k)
		}
	}
}
