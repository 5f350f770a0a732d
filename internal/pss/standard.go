package pss

import (
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psapi "k8s.io/pod-security-admission/api"
	pspolicy "k8s.io/pod-security-admission/policy"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/kubeversion"
)

// The levels of the standards.
const (
	LevelPrivileged = "privileged"
	LevelBaseline   = "baseline"
	LevelRestricted = "restricted"
)

// Levels are the levels that a rule may name.
func Levels() []string { return []string{LevelPrivileged, LevelBaseline, LevelRestricted} }

// The minor versions of Kubernetes whose standards a rule may name, besides "latest".
const oldestMinor, newestMinor = 19, int(kubeversion.Newest)

// Versions are the versions that a rule may name.
func Versions() []string {
	var out []string
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		out = append(out, "v1."+strconv.Itoa(minor))
	}
	return append(out, "latest")
}

// Standard is one level of the standards in one Kubernetes version. It is immutable and safe for concurrent use.
type Standard struct {
	checks []check
}

// check is one check of the library, in the variant for the chosen version.
type check struct {
	id      string // the ID in reports
	control *control
	run     pspolicy.CheckPodFn
}

// New returns the standard of a level and a version. The level baseline has the baseline checks; every other level,
// even privileged, has all checks. The latest version, which an empty one also means, is that of the API server. The error means that there is
// no such version.
func New(level, version string, server kubeversion.Minor) (*Standard, error) {
	wanted := latest(server)
	if !IsLatest(version) {
		v, err := psapi.ParseVersion(version)
		if err != nil {
			return nil, fmt.Errorf("unknown version %q of the Pod Security Standards: %w", version, err)
		}
		wanted = v
	}
	s := &Standard{}
	replaced := map[string]bool{}
	for _, c := range libraryChecks() {
		if level == LevelBaseline && c.Level != psapi.LevelBaseline {
			continue
		}
		run := variant(&c, wanted)
		if run == nil {
			continue
		}
		id := string(c.ID)
		control := controlOf(id)
		if control == nil {
			return nil, fmt.Errorf("the check %s is not known to this version of Ephor", id)
		}
		if as, ok := replacements[id]; ok {
			replaced[as] = true
			id = as
		}
		s.checks = append(s.checks, check{id: id, control: control, run: run})
	}
	s.dropReplaced(replaced)
	return s, nil
}

// IsLatest reports whether a rule follows the version of the API server.
func IsLatest(version string) bool { return version == "" || version == "latest" }

// latest returns the version of the standards in an API server.
func latest(server kubeversion.Minor) psapi.Version {
	return psapi.MajorMinorVersion(1, int(server.Known()))
}

// Changes returns the checks of a level that differ between two versions of the API server, in the library's order.
func Changes(level string, from, to kubeversion.Minor) (out []string) {
	for _, c := range libraryChecks() {
		if level == LevelBaseline && c.Level != psapi.LevelBaseline {
			continue
		}
		if since(&c, latest(from)) != since(&c, latest(to)) {
			out = append(out, string(c.ID))
		}
	}
	return out
}

// since returns the version that defined the variant of a check which a version has.
func since(c *pspolicy.Check, wanted psapi.Version) (out psapi.Version) {
	for _, v := range c.Versions {
		if !wanted.Older(v.MinimumVersion) {
			out = v.MinimumVersion
		}
	}
	return out
}

// replacements are restricted checks that replace the baseline check of the same control. For other controls with a
// check on each level, Kyverno runs both.
var replacements = map[string]string{"procMount_restricted": "procMount"}

// dropReplaced keeps only the last of the checks that share a replaced ID.
func (s *Standard) dropReplaced(replaced map[string]bool) {
	out := s.checks[:0]
	for i, c := range s.checks {
		again := false
		for _, later := range s.checks[i+1:] {
			again = again || replaced[c.id] && later.id == c.id
		}
		if !again {
			out = append(out, c)
		}
	}
	s.checks = out
}

// libraryChecks are the checks of the library with their versions, in the library's order, which is that of the
// messages.
var libraryChecks = sync.OnceValue(pspolicy.DefaultChecks)

// variant returns the newest variant of a check that the version has; nil if the check was added later.
func variant(c *pspolicy.Check, wanted psapi.Version) pspolicy.CheckPodFn {
	var run pspolicy.CheckPodFn
	for _, v := range c.Versions {
		if wanted.Older(v.MinimumVersion) {
			break
		}
		run = v.CheckPod
	}
	return run
}

// Check returns the violations of a pod, in the order of the checks; nil if it is allowed. The error wraps budget.ErrExhausted; meter may be
// nil.
func (s *Standard) Check(pod *Pod, meter *budget.Meter) ([]Violation, error) {
	if err := meter.Step(len(s.checks) * pod.nodes); err != nil {
		return nil, err
	}
	if err := meter.Bytes(listedBytes * pod.listed()); err != nil {
		return nil, err
	}
	var out []Violation
	for i := range s.checks {
		c := &s.checks[i]
		result := c.run(&pod.Meta, &pod.Spec)
		if result.Allowed {
			continue
		}
		fields, err := c.locate(&pod.Meta, &pod.Spec, meter)
		if err != nil {
			return nil, err
		}
		out = append(out, Violation{ID: c.id, Control: c.control.name, Reason: result.ForbiddenReason, Fields: fields, check: c})
	}
	return out, nil
}

// listedBytes is the memory that the library takes for each value that it lists in its own text about a pod.
const listedBytes = 400

// listed returns the number of the values of which a pod may have many within few bytes.
func (p *Pod) listed() int {
	n := len(p.Meta.Annotations)
	if sc := p.Spec.SecurityContext; sc != nil {
		n += len(sc.Sysctls)
	}
	eachContainer(&p.Spec, func(c *container) {
		if sc := c.SecurityContext; sc != nil && sc.Capabilities != nil {
			n += len(sc.Capabilities.Add)
		}
	})
	return n
}

// locate finds the fields that the check forbids in the pod.
func (c *check) locate(meta *metav1.ObjectMeta, spec *corev1.PodSpec, meter *budget.Meter) ([]FieldError, error) {
	f := finder{meta: meta, spec: spec, run: c.run, meter: meter}
	c.control.locate(c.id, &f)
	return f.found, f.err
}
