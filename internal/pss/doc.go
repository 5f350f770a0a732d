// Package pss checks pods against the Pod Security Standards.
//
//	standard, err := pss.New("restricted", "latest", 0)   // 0: of the newest API server
//	pod, err := pss.Decode(object, meter) // a Pod, or a controller with a pod template
//	for _, v := range standard.Check(pod) {
//		v.Reason, v.Fields // privileged, [spec.containers[0].securityContext.privileged is forbidden, …]
//	}
//	rest := standard.Except(pod, violations, exclusions)
//
// The checks of k8s.io/pod-security-admission decide whether a pod is allowed, version for version. That library
// describes its findings in prose, which this package never parses. If a check forbids a pod, the file check_<name>.go
// finds the fields that violate it. If only the check knows which values are allowed, the file runs the same check on
// single values.
//
// It does not read images, namespaces' pod-security labels or the policy's actions, and it does not know exceptions:
// their lists of controls are Exclusions like those of a rule.
//
// Floor 2 (language).
package pss
