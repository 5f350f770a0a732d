// Package pss checks pods by the Pod Security Standards.
//
//	standard, err := pss.New("restricted", "latest")
//	pod, err := pss.Decode(object, meter) // a Pod, or a controller with a pod template
//	for _, v := range standard.Check(pod) {
//		v.Reason, v.Fields // privileged, [spec.containers[0].securityContext.privileged is forbidden, …]
//	}
//	rest := standard.Except(pod, violations, exclusions)
//
// Whether a pod is allowed is decided by the checks of k8s.io/pod-security-admission, version for version. That library
// says in prose what it found. This package never reads the prose: where a check forbids a pod, the file check_<name>.go
// finds the fields to blame, and asks the same check about single values where only the check knows which are allowed.
//
// It does not read images, namespaces' pod-security labels or the policy's actions, and it does not know exceptions:
// their lists of controls are Exclusions like those of a rule.
//
// Floor 2 (language).
package pss
