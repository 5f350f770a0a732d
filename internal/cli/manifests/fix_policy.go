package manifests

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/internal/family/classic"
)

func newFixPolicy() *cobra.Command {
	var save bool
	cmd := &cobra.Command{
		Use:   "policy PATH...",
		Short: "Replace deprecated syntax in policies",
		Long: "Policy moves resources and users directly under match and exclude into any, moves lists of preconditions into all, and replaces\n" +
			"deprecated operators and spellings of the failure action. It does not change files without deprecated syntax.",
		Example: "  ephor fix policy policies/\n  ephor fix policy policies/ --save",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := yamlFiles(args, isYAML)
			if err != nil {
				return err
			}
			found := 0
			for _, path := range files {
				f, err := readDocuments(path)
				if err != nil {
					return err
				}
				policies := 0
				for _, doc := range f.roots() {
					if isClassic(doc) {
						policies++
						f.policy(doc)
					}
				}
				if policies == 0 {
					continue
				}
				found += policies
				fmt.Fprintf(cmd.OutOrStdout(), "Processing policy file (%s)...\n", path)
				if err := f.finish(cmd, save, false); err != nil {
					return err
				}
			}
			done(cmd, found, "policies of kyverno.io")
			return nil
		},
	}
	cmd.Flags().BoolVar(&save, "save", false, "write the files instead of printing them")
	return cmd
}

func isClassic(doc *yaml.Node) bool {
	return classic.Owns(valueOf(getNode(doc, "apiVersion")), valueOf(getNode(doc, "kind")))
}

func (f *fixedFile) policy(doc *yaml.Node) {
	spec := getNode(doc, "spec")
	f.action(spec, "validationFailureAction")
	if overrides := getNode(spec, "validationFailureActionOverrides"); overrides != nil {
		for _, o := range overrides.Content {
			f.action(o, "action")
		}
	}
	rules := getNode(spec, "rules")
	if rules == nil {
		return
	}
	for _, r := range rules.Content {
		name := valueOf(getNode(r, "name"))
		for _, block := range []string{"match", "exclude"} {
			f.block(getNode(r, block), "rule "+name+": "+block)
		}
		if p := getNode(r, "preconditions"); p != nil && p.Kind == yaml.SequenceNode && !holdsBlocks(p) {
			setNode(r, "preconditions", mapNode(textNode("all"), p), false)
			f.warn("rule %s: the list of preconditions is moved into all", name)
		}
		validate := getNode(r, "validate")
		f.action(validate, "failureAction")
		if overrides := getNode(validate, "failureActionOverrides"); overrides != nil {
			for _, o := range overrides.Content {
				f.action(o, "action")
			}
		}
		f.operators(r, name)
	}
}

// action capitalizes the values enforce and audit.
func (f *fixedFile) action(m *yaml.Node, key string) {
	v := getNode(m, key)
	switch valueOf(v) {
	case "enforce", "audit":
		capital := strings.ToUpper(v.Value[:1]) + v.Value[1:]
		f.warn("%s %s is written %s", key, v.Value, capital)
		v.Value = capital
	}
}

// block moves a filter that is not in a list into any.
func (f *fixedFile) block(m *yaml.Node, where string) {
	if m == nil || m.Kind != yaml.MappingNode || getNode(m, "any") != nil || getNode(m, "all") != nil {
		return
	}
	filter := mapNode()
	for _, key := range []string{"resources", "subjects", "roles", "clusterRoles"} {
		filter.Content = append(filter.Content, takeNode(m, key)...)
	}
	if len(filter.Content) > 0 {
		setNode(m, "any", listNode(filter), false)
		f.warn("%s: the filter is moved into any", where)
	}
}

// holdsBlocks reports whether a list contains any or all blocks.
func holdsBlocks(list *yaml.Node) bool {
	for _, e := range list.Content {
		if getNode(e, "any") != nil || getNode(e, "all") != nil {
			return true
		}
	}
	return false
}

// currentOperators maps deprecated operators to their current names.
var currentOperators = map[string]string{"Equal": "Equals", "NotEqual": "NotEquals", "In": "AllIn", "NotIn": "AnyNotIn"}

// operators renames the operators of all conditions below n. Conditions are the maps with a key and an operator. The requirements of label
// selectors have operators too, and there In and NotIn are correct, as is Equal in the tolerations of a pattern or a patch.
func (f *fixedFile) operators(n *yaml.Node, rule string) {
	if op := getNode(n, "operator"); op != nil && getNode(n, "key") != nil && getNode(n, "values") == nil {
		if current, deprecated := currentOperators[valueOf(op)]; deprecated {
			f.warn("rule %s: operator %s is replaced by %s", rule, op.Value, current)
			op.Value = current
		}
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && (n.Content[i-1].Value == "matchExpressions" || classic.HoldsObject(n.Content[i-1].Value)) {
			continue
		}
		f.operators(child, rule)
	}
}
