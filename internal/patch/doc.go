// Package patch changes JSON values: strategic merge patches with anchors, JSON patches (RFC 6902) with the tolerances
// that Kyverno users rely on, and the JSON patch that turns one value into another.
//
//	overlay, diags := patch.CompileOverlay(map[string]any{"metadata": map[string]any{"labels": map[string]any{"+(team)": "none"}}}, "spec.rules[0].mutate.patchStrategicMerge")
//	pod2, err := overlay.Apply(meter, pod)     // pod itself is unchanged; what the patch does not touch is shared
//	ops := patch.Diff(pod, pod2)               // [{"op":"add","path":"/metadata/labels/team","value":"none"}]
//
// Inputs are never modified. A result shares every unchanged part with its input, so the cost of a patch depends on what
// it changes, and an unchanged result is the input itself.
//
// mergekeys.txt defines which lists are merged by which keys. hack/mergekeys generates it from the Kubernetes API types,
// so that no registry of types is loaded. The package does not know variables (template substitutes them before),
// targets, or the meaning of a rule's result.
//
// Floor 0 (leaf): above pattern, value and budget.
package patch
