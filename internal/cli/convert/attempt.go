package convert

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"

	gvk "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// The subresources that a rule about Pods covers.
const (
	debug  = "ephemeralcontainers"
	resize = "resize"
)

// attempt is one request for which two policies are compared.
type attempt struct {
	what        string // such as "creation", for the report
	operation   policy.Operation
	subresource string
	object, old map[string]any
	user        *policy.User
	roles       policy.Roles         // those that the rule names, which some requesters have
	parent      gvk.GroupVersionKind // of a subresource whose object has another kind; empty otherwise
}

// String returns the beginning of a sentence about the resource; it is empty for a creation without a requester.
func (a *attempt) String() string {
	switch {
	case a.user != nil:
		return "the " + a.what + ", by " + a.user.Username + " " + fmt.Sprint(a.user.Groups) + ", of "
	case a.what == "creation":
		return ""
	}
	return "the " + a.what + " of "
}

// request changes the request of the creation of an object to that of the attempt.
func (a *attempt) request(r *policy.Request) *policy.Request {
	r.Operation, r.Subresource, r.User = a.operation, a.subresource, a.user
	if a.user != nil {
		r.ResolveRoles = resolver(a.roles, a.user)
	}
	if a.parent.Kind != "" {
		r.GVK, r.GVR = a.parent, a.resource()
	}
	r.Object = value.Of(a.object)
	if a.old != nil {
		r.OldObject = value.Of(a.old)
	}
	if a.operation == policy.Delete {
		r.Object = nil
	}
	if r.GVK.Kind == "Namespace" && r.GVK.Group == "" {
		r.Namespace = r.Name
	}
	return r
}

// attempts makes the requests for one resource: its creation and, for rules that answer requests, one more.
type attempts struct {
	stage   policy.Stage
	kinds   int      // the number of kinds of the resources
	unasked []string // the subresources of Pods about which only the classic rule is asked
	users   []*policy.User
	// last is the last Pod, whose first container becomes a debug container.
	last map[string]any
	// older are the last resources of each kind that an update may have changed.
	older map[string]map[string]any
	// updates: the classic rule is about updates, and not about creations.
	updates bool
	// deletes: the classic rule names deletions.
	deletes bool
	// existing: the classic rule admits updates of objects that violated it before, which the policy in CEL does not.
	existing bool

	// subresource returns the subresource of the i-th resource; nil if it is a resource of its own.
	subresource func(i int) *subresource

	tried  map[string]int // by what
	random *rand.Rand
}

// attempts returns the attempts for the resources of a sampler.
func (p prover) attempts(stage policy.Stage, s *sampler, unasked []string) *attempts {
	return &attempts{
		stage: stage, kinds: len(s.kinds) + len(s.subresources), unasked: unasked, older: map[string]map[string]any{}, tried: map[string]int{},
		random: rand.New(rand.NewSource(p.seed)), //nolint:gosec // the same requesters each time
	}
}

// of returns the requests for the i-th resource. admit returns a resource as the classic rule admits its creation, or nil.
func (t *attempts) of(i int, object map[string]any, admit func(map[string]any) (map[string]any, error)) ([]attempt, error) {
	user := func() *policy.User { // at random: every requester meets every kind, operation and name
		if len(t.users) == 0 {
			return nil
		}
		return t.users[t.random.Intn(len(t.users))]
	}
	if sub := t.subresource(i); sub != nil {
		return []attempt{sub.of(object, i, user())}, nil
	}
	round := i / max(1, t.kinds)
	out := []attempt{{what: "creation", operation: policy.Create, object: object, user: user()}}
	kind, _ := object["kind"].(string)
	if t.updates {
		object = stored(object, i)
		old := object
		if other := t.older[kind]; other != nil {
			old = renamed(other, object)
		}
		out[0] = attempt{what: "update", operation: policy.Update, object: object, old: old, user: user()}
		t.older[kind] = object
	}
	if t.stage.Has(policy.StageGenerate|policy.StageMutateExisting) && !t.updates {
		switch old := t.older[kind]; {
		case round%4 == 0 && t.deletes:
			out = append(out, attempt{what: "deletion", operation: policy.Delete, object: object, old: object, user: user()})
		case old != nil:
			out = append(out, attempt{what: "update", operation: policy.Update, object: object, old: renamed(old, object), user: user()})
		}
		return out, nil
	}
	if !t.stage.Has(policy.StageValidate | policy.StageVerifyImages | policy.StageMutate) {
		return out, nil
	}
	object = stored(object, i)
	pod, old := object["apiVersion"] == "v1" && kind == "Pod", t.older[kind]
	next, last := attempt{what: "update", operation: policy.Update, object: object, user: user()}, t.last
	if pod {
		t.last = object
	}
	turn := round % 4
	switch {
	case turn == 0 && t.stage == policy.StageValidate:
		next.what, next.operation, next.old = "deletion", policy.Delete, object
		return append(out, next), nil
	case turn == 1 && pod && !slices.Contains(t.unasked, "pods/"+debug):
		next.what, next.subresource, old = "debug container", debug, object
	case turn == 2 && pod && !slices.Contains(t.unasked, "pods/"+resize):
		next.what, next.subresource, old = "resize", resize, object
	}
	if old == nil {
		return out, nil
	}
	next.old = renamed(old, object)
	// Of a subresource that a policy in CEL does not list, it reports no violation that the Pod had before. A rule that verifies images
	// leaves records on what it admits.
	if t.existing || next.subresource != "" || t.stage == policy.StageVerifyImages {
		admitted, err := admit(next.old)
		if admitted == nil || err != nil {
			return out, err
		}
		next.old = admitted
	}
	switch {
	case next.subresource == debug:
		next.object = debugged(next.old, last, t.stage == policy.StageVerifyImages)
	case next.subresource == resize:
		next.object = next.old
	case t.stage == policy.StageVerifyImages:
		next.object = annotated(object, next.old)
	}
	return append(out, next), nil
}

// annotated returns an object with the annotations of another one.
func annotated(object, like map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	other, _ := like["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	more, _ := other["annotations"].(map[string]any)
	if len(more) == 0 {
		return object
	}
	out, with, all := maps.Clone(object), maps.Clone(metadata), maps.Clone(more)
	maps.Copy(all, annotations)
	with["annotations"], out["metadata"] = all, with
	return out
}

// stored returns an object as it is in the cluster, where it has a UID.
func stored(object map[string]any, i int) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	out, with := maps.Clone(object), maps.Clone(metadata)
	if with == nil {
		with = map[string]any{}
	}
	if with["uid"] == nil {
		with["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
	}
	out["metadata"] = with
	return out
}

// debugged returns a Pod with a further container for debugging, which is like the first container of another Pod. pin gives its image a
// digest: only a classic rule would add one.
func debugged(pod, like map[string]any, pin bool) map[string]any {
	template, _ := like["spec"].(map[string]any)
	containers, _ := template["containers"].([]any)
	container := map[string]any{}
	if len(containers) > 0 {
		first, _ := containers[0].(map[string]any)
		maps.Copy(container, first)
	}
	container["name"] = "debug"
	if image, _ := container["image"].(string); image == "" {
		container["image"] = "debug"
	}
	if image := container["image"].(string); pin && !strings.Contains(image, "@") {
		container["image"] = fmt.Sprintf("%s@sha256:%x", image, sha256.Sum256([]byte(image)))
	}
	spec, _ := pod["spec"].(map[string]any)
	out, with := maps.Clone(pod), maps.Clone(spec)
	if with == nil {
		with = map[string]any{}
	}
	before, _ := with["ephemeralContainers"].([]any)
	with["ephemeralContainers"] = append(slices.Clip(before), container)
	out["spec"] = with
	return out
}

// renamed returns an object with the identity of another one.
func renamed(object, as map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	other, _ := as["metadata"].(map[string]any)
	out, with := maps.Clone(object), maps.Clone(metadata)
	if with == nil {
		with = map[string]any{}
	}
	for _, field := range []string{"name", "namespace", "uid"} {
		if with[field] = other[field]; other[field] == nil {
			delete(with, field)
		}
	}
	out["metadata"] = with
	return out
}

// report returns what was tried, such as "500 creations, 120 updates".
func (t *attempts) report() string {
	var out []string
	for _, what := range []string{"creation", "update", "deletion", "debug container", "resize"} {
		if n := t.tried[what]; n > 0 {
			out = append(out, terminal.Counted(n, what, what+"s"))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(t.tried)) {
		if strings.HasPrefix(what, "request for ") {
			out = append(out, terminal.Counted(t.tried[what], "request", "requests")+strings.TrimPrefix(what, "request"))
		}
	}
	text := strings.Join(out, ", ")
	if n := len(t.users); n > 0 {
		text += ", by " + terminal.Counted(n, "requester", "requesters")
	}
	return text
}

// requesters returns the users for whom a rule that reads the requester is evaluated: those that its policy names, and another one.
func requesters(original map[string]any) []*policy.User {
	out := []*policy.User{{Username: "visitor@example.com", Groups: []string{"system:authenticated"}}}
	add := func(u *policy.User) {
		if !slices.ContainsFunc(out, func(o *policy.User) bool { return o.Username == u.Username && slices.Equal(o.Groups, u.Groups) }) {
			out = append(out, u)
		}
	}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			subjects, _ := v["subjects"].([]any)
			for _, s := range subjects {
				subject, _ := s.(map[string]any)
				name, _ := subject["name"].(string)
				namespace, _ := subject["namespace"].(string)
				name = instance(name, "x")
				switch subject["kind"] {
				case "Group":
					add(&policy.User{Username: "member", Groups: []string{"system:authenticated", name}})
				case "ServiceAccount":
					add(&policy.User{Username: "system:serviceaccount:" + instance(namespace, "x") + ":" + name, Groups: []string{"system:serviceaccounts"}})
				default:
					add(&policy.User{Username: name, Groups: []string{"system:authenticated"}})
				}
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				visit(v[k])
			}
		case []any:
			for _, e := range v {
				visit(e)
			}
		case string:
			if !strings.Contains(v, "system:") || strings.Contains(v, "{{") {
				return
			}
			if strings.Contains(v, "authenticated") { // every other requester is
				add(&policy.User{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}})
			}
			names := []string{v}
			if found := quoted().FindAllStringSubmatch(v, -1); len(found) > 0 { // an expression
				names = nil
				for _, m := range found {
					names = append(names, m[1]+m[2]+m[3])
				}
			}
			for _, name := range names {
				if !strings.Contains(name, "system:") {
					continue
				}
				add(&policy.User{Username: instance(name, "x"), Groups: []string{"system:authenticated"}})
				add(&policy.User{Username: "member", Groups: []string{"system:authenticated", instance(name, "x")}})
			}
		}
	}
	visit(original["spec"])
	if roles := rolesOf(original["spec"]); len(roles.Roles)+len(roles.ClusterRoles) > 0 {
		add(&policy.User{Username: roleHolder, Groups: []string{"system:authenticated"}})
		add(&policy.User{Username: "member", Groups: []string{"system:authenticated", roleHolders}})
		for _, u := range slices.Clone(out) { // with the roles, and a user that the rule names
			add(&policy.User{Username: u.Username, Groups: append(slices.Clone(u.Groups), roleHolders)})
		}
	}
	return out
}

// namespaces returns the labels of the namespaces of objects. Every other namespace fits the namespaceSelectors of the policy.
func namespaces(original map[string]any, objects []map[string]any) map[string]map[string]string {
	fitting := map[string]string{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			selector, _ := v["namespaceSelector"].(map[string]any)
			labels, _ := selector["matchLabels"].(map[string]any)
			for name, want := range labels {
				text, _ := want.(string)
				fitting[instance(name, "x")] = instance(text, "x")
			}
			expressions, _ := selector["matchExpressions"].([]any)
			for _, e := range expressions {
				expression, _ := e.(map[string]any)
				key, _ := expression["key"].(string)
				switch expression["operator"] {
				case "In":
					if values, _ := expression["values"].([]any); len(values) > 0 {
						fitting[key] = fmt.Sprint(values[0])
					}
				case "Exists":
					fitting[key] = "x"
				}
			}
			for _, e := range v {
				visit(e)
			}
		case []any:
			for _, e := range v {
				visit(e)
			}
		}
	}
	visit(original["spec"])
	var names []string
	for _, o := range objects {
		metadata, _ := o["metadata"].(map[string]any)
		if name, _ := metadata["namespace"].(string); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := map[string]map[string]string{}
	for i, name := range names {
		labels := map[string]string{}
		if i%2 == 0 {
			maps.Copy(labels, fitting)
		}
		labels["kubernetes.io/metadata.name"] = name
		out[name] = labels
	}
	return out
}

// coverage are the kinds, operations and subresources that a classic rule matched.
type coverage struct {
	kinds, operations, subresources map[string]bool
}

func (c *coverage) add(a *attempt) {
	if c.kinds == nil {
		c.kinds, c.operations, c.subresources = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	kind, _ := a.object["kind"].(string)
	if a.parent.Kind != "" {
		c.subresources[a.parent.Kind+"/"+a.subresource] = true
	}
	if a.subresource == debug || a.subresource == resize {
		c.subresources[kind+"/"+a.subresource] = true
	}
	c.kinds[kind], c.operations[string(a.operation)] = true, true
}

// missing returns what the proof lacks: it proves nothing about a kind or an operation that the rule names and no resource matched.
func (c *coverage) missing(classic *policy.Program, uncovered []string, applied int) (out []string) {
	if applied == 0 {
		return []string{"nothing was proved: the rule matched no resource (add some with --resource, and definitions of their kinds with --crd-paths)"}
	}
	var kinds, operations []string
	for _, r := range classic.Rules {
		for _, t := range r.Targets {
			if t.Kind != "" && t.Kind != "*" && t.Subresource == "" && !wildcard.Has(t.Kind) && !c.kinds[t.Kind] && !slices.Contains(uncovered, t.Kind) && !slices.Contains(kinds, t.Kind) {
				kinds = append(kinds, t.Kind)
			}
			for _, o := range t.Operations {
				if o != policy.Connect && len(t.Operations) < 4 && !c.operations[string(o)] && !slices.Contains(operations, string(o)) {
					operations = append(operations, string(o))
				}
			}
		}
	}
	if len(kinds) > 0 {
		out = append(out, "nothing was proved about "+strings.Join(kinds, ", ")+": the rule matched no such resource (add some with --resource, and definitions of their kinds with --crd-paths)")
	}
	if len(operations) > 0 {
		out = append(out, "nothing was proved about the operations "+strings.Join(operations, ", ")+": the rule matched no such request")
	}
	return out
}

// met reports whether the rule matched a subresource that a name such as Pod/exec, with wildcards, names.
func (c *coverage) met(name string) bool {
	for s := range c.subresources {
		if wildcard.Match(name, s) {
			return true
		}
	}
	return false
}

// left returns the subresources that the rule names and the proof does not try.
func (c *coverage) left(classic *policy.Program) (out []string) {
	for _, r := range classic.Rules {
		for _, t := range r.Targets {
			if name := t.Kind + "/" + t.Subresource; t.Subresource != "" && t.Kind != "" && !c.met(name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// left returns what was not tried, with more.
func (t *attempts) left(more []string) string {
	out := slices.Clone(more)
	for _, what := range []string{"update", "deletion"} {
		if t.tried[what] == 0 && !(what == "deletion" && t.stage != policy.StageValidate) {
			out = append(out, what+"s")
		}
	}
	return strings.Join(out, ", ")
}
