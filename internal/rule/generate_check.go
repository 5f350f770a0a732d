package rule

import (
	"maps"
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kindnames "ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
)

// These texts are Kyverno's, verbatim.
const (
	textOnePattern     = "only one of generate patterns(data, clone, cloneList and foreach) can be specified"
	textOtherNamespace = "a namespaced policy cannot generate resources in other namespaces, expected: %s, received: %s"
	textCloneNamespace = "a namespaced policy cannot clone resources from other namespaces, expected: %s, received: %s"
	textListNamespace  = "a namespaced policy cannot clone resources from other namespace, expected: %s, received: %s"
	textCloneVariables = "variables in %s would lead to incorrect synchronization behavior"
)

// checkGenerate reports the mistakes in a pattern that can be found without a cluster. It returns false if the pattern cannot be compiled.
func (c *compiler) checkGenerate(p *kyvernov1.GeneratePattern, path string) bool {
	before := len(c.diags)
	clone, list := p.Clone != (kyvernov1.CloneFrom{}), hasCloneList(p)
	if count(p.RawData != nil, clone, list) > 1 {
		c.diags.Errorf(path, "%s", textOnePattern)
		c.diags.Hint("write each of them as a rule of its own")
		return false
	}
	if list {
		c.checkCloneList(p, path)
	} else {
		for _, f := range []struct{ value, name string }{{p.Kind, "kind"}, {p.Name, "name"}, {p.APIVersion, "apiVersion"}} {
			if f.value == "" {
				c.diags.Errorf(path+"."+f.name, "%s can not be empty", f.name)
				c.diags.Hint("add generate.%s: apiVersion, kind and name say which object is made", f.name)
			}
		}
		if clone && p.Clone.Name == "" {
			c.diags.Errorf(path+".clone.name", "name can not be empty")
			c.diags.Hint("add clone.name, the name of the object to copy")
		}
	}
	c.checkScope(p, path)
	// A namespaced policy must name its own namespace literally, since the value of a variable is not known in time.
	if ns := c.in.Namespace; ns != "" {
		if p.Namespace != ns {
			c.diags.Errorf(path+".namespace", textOtherNamespace, ns, p.Namespace)
			c.diags.Hint("write the namespace of the Policy, or a ClusterPolicy")
		}
		if clone && p.Clone.Namespace != ns {
			c.diags.Errorf(path+".clone.namespace", textCloneNamespace, ns, p.Clone.Namespace)
			c.diags.Hint("write the namespace of the Policy, or a ClusterPolicy")
		}
		if list && p.CloneList.Namespace != ns {
			c.diags.Errorf(path+".cloneList.namespace", textListNamespace, ns, p.CloneList.Namespace)
			c.diags.Hint("write the namespace of the Policy, or a ClusterPolicy")
		}
	}
	if clone && (!isStatic(p.Clone.Namespace) || !isStatic(p.Clone.Name)) {
		c.harmless.Warnf(path+".clone", textCloneVariables, path+".clone")
		c.harmless.Hint("write a fixed name and namespace of the source, so that its changes reach the copies")
	}
	if list && (!isStatic(p.CloneList.Namespace) || slices.ContainsFunc(p.CloneList.Kinds, func(k string) bool { return !isStatic(k) })) {
		c.harmless.Warnf(path+".cloneList", textCloneVariables, path+".cloneList")
		c.harmless.Hint("write fixed kinds and a fixed namespace of the sources, so that their changes reach the copies")
	}
	c.noteOutputs(p, path)
	return !c.diags[before:].HasErrors()
}

// noteOutputs records the objects of the pattern, for checks against a cluster.
func (c *compiler) noteOutputs(p *kyvernov1.GeneratePattern, path string) {
	if p.Kind != "" && isStatic(p.Kind) && isStatic(p.APIVersion) {
		c.outputs = append(c.outputs, policy.Output{APIVersion: p.APIVersion, Kind: p.Kind, Namespace: p.Namespace, Copy: p.Clone != (kyvernov1.CloneFrom{}), Path: path})
	}
	for _, k := range p.CloneList.Kinds {
		if apiVersion, kind, ok := splitKind(k); ok && isStatic(k) {
			c.outputs = append(c.outputs, policy.Output{APIVersion: apiVersion, Kind: kind, Namespace: p.Namespace, List: true, Copy: true, Path: path + ".cloneList"})
		}
	}
}

// checkScope checks that the namespace of the target matches the scope of its kind, if the kind is built in.
func (c *compiler) checkScope(p *kyvernov1.GeneratePattern, path string) {
	if p.Kind == "" || !isStatic(p.Kind) || !isStatic(p.APIVersion) {
		return
	}
	switch clusterScoped := kindnames.ClusterScoped(p.APIVersion, p.Kind); {
	case clusterScoped && c.in.Namespace != "":
		c.diags.Errorf(path+".kind", "the target must be a namespaced resource: %s/%s", p.APIVersion, p.Kind)
		c.diags.Hint("write a ClusterPolicy to make objects of this kind")
	case clusterScoped && p.Namespace != "":
		c.diags.Errorf(path+".namespace", "target namespace must not be set for a cluster-wide resource")
		c.diags.Hint("remove namespace: objects of this kind have none")
	case !clusterScoped && p.Namespace == "" && builtin(p.APIVersion):
		c.diags.Errorf(path+".namespace", "target namespace must be set for a namespaced resource")
		c.diags.Hint("add namespace, such as \"{{ request.object.metadata.name }}\" in a rule for namespaces")
	}
}

func (c *compiler) checkCloneList(p *kyvernov1.GeneratePattern, path string) {
	l := p.CloneList
	if len(l.Kinds) == 0 {
		c.diags.Errorf(path+".cloneList.kinds", "kind can not be empty")
		c.diags.Hint("add cloneList.kinds, such as [v1/Secret]")
	}
	scopes := map[bool]bool{}
	for _, kind := range l.Kinds {
		if !isStatic(kind) {
			continue
		}
		apiVersion, name, ok := splitKind(kind)
		if !ok {
			c.diags.Errorf(path+".cloneList.kinds", "%q is not of the form version/Kind or group/version/Kind", kind)
			c.diags.Hint("write the version before the kind, such as v1/Secret or apps/v1/Deployment")
			continue
		}
		clusterScoped := kindnames.ClusterScoped(apiVersion, name)
		if clusterScoped || builtin(apiVersion) {
			scopes[clusterScoped] = true
		}
		if clusterScoped && c.in.Namespace != "" {
			c.diags.Errorf(path+".cloneList.kinds", "the source in cloneList must be a namespaced resource: %s", kind)
			c.diags.Hint("write a ClusterPolicy to copy objects of this kind")
		}
	}
	switch {
	case scopes[true] && scopes[false]:
		c.diags.Errorf(path+".cloneList.kinds", "mixed scope of target resources is forbidden")
		c.diags.Hint("write one rule for the kinds with a namespace, and one for the others")
	case scopes[false] && l.Namespace == "":
		c.diags.Errorf(path+".cloneList.namespace", "namespace is required for namespaced target resources")
		c.diags.Hint("add cloneList.namespace, the namespace of the sources")
	case scopes[true] && l.Namespace != "":
		c.diags.Errorf(path+".cloneList.namespace", "namespace is forbidden for cluster-wide target resources")
		c.diags.Hint("remove cloneList.namespace: objects of these kinds have none")
	}
	if scopes[false] && p.Namespace == "" {
		c.diags.Errorf(path+".namespace", "target namespace must be set for a namespaced resource")
		c.diags.Hint("add namespace, such as \"{{ request.object.metadata.name }}\" in a rule for namespaces")
	}
	if l.Selector != nil {
		for _, key := range slices.Sorted(maps.Keys(l.Selector.MatchLabels)) {
			if v := l.Selector.MatchLabels[key]; isStatic(key) && isStatic(v) && strings.ContainsAny(key+v, "*?") {
				c.diags.Errorf(path+".cloneList.selector", "wildcard characters `*/?` not supported")
				c.diags.Hint("write the label and its value in full, or leave out the selector to copy all objects of the kinds")
			}
		}
	}
}

func isStatic(text string) bool { return !strings.Contains(text, "{{") }

func count(bools ...bool) int {
	n := 0
	for _, b := range bools {
		if b {
			n++
		}
	}
	return n
}

// splitKind parses version/Kind or group/version/Kind.
func splitKind(s string) (apiVersion, kind string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i <= 0 || i == len(s)-1 || strings.Count(s, "/") > 2 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// builtin reports whether the kinds of the version are built in, so that their scope is known.
func builtin(apiVersion string) bool {
	group, _ := splitAPIVersion(apiVersion)
	return kindnames.KubernetesGroup(group)
}

func hasCloneList(p *kyvernov1.GeneratePattern) bool {
	l := p.CloneList
	return l.Namespace != "" || len(l.Kinds) > 0 || l.Selector != nil
}

// hasPattern reports whether the rule itself has a pattern, apart from foreach.
func hasPattern(p *kyvernov1.GeneratePattern) bool {
	return p.RawData != nil || p.Clone != (kyvernov1.CloneFrom{}) || hasCloneList(p) || p.Kind != "" || p.Name != ""
}
