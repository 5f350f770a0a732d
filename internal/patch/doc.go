// Package patch changes JSON values: strategic merge patches with Ephor's anchors, JSON patches (RFC 6902) with the
// tolerances that Kyverno users rely on, and the JSON patch that leads from one value to another.
//
//	overlay, diags := patch.CompileOverlay(map[string]any{"metadata": map[string]any{"labels": map[string]any{"+(team)": "none"}}}, "spec.rules[0].mutate.patchStrategicMerge")
//	pod2, err := overlay.Apply(meter, pod)     // pod itself is unchanged; what the patch does not touch is shared
//	ops := patch.Diff(pod, pod2)               // [{"op":"add","path":"/metadata/labels/team","value":"none"}]
//
// Inputs are never modified. A result shares every part that is unchanged with its input, so that a patch costs what it
// changes, and an unchanged result is the input itself.
//
// Which lists are merged by which keys comes from mergekeys.txt, generated from the Kubernetes API types by
// hack/mergekeys, so that no registry of types is loaded. The package does not know variables (template substitutes them
// before), targets, or what a result of a rule is.
//
// Floor 0 (leaf): above pattern, value and budget.
package patch
