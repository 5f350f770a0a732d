package reads

import "testing"

// T25: a condition counts as defined only if it has a value for every object.
func TestT25Defined(t *testing.T) {
	created := []string{"object", "object.apiVersion", "object.kind", "object.metadata", "object.metadata.name", "request", "request.operation", "request.userInfo"}
	for _, c := range []string{
		"true", "object.metadata.name == 'a'", "object.metadata.name in ['a', 'b']", "object.metadata.name.startsWith('a')", "object.metadata.name.matches('^a+$')",
		"object.metadata.?labels.?app.orValue('') == 'a'", "object.metadata.?labels['app'].orValue('') == 'a'", "object.metadata[?'labels'].?app.hasValue()",
		"'app' in object.metadata.?labels.orValue({})", "has(object.metadata.labels) && has(object.metadata.labels.app) && object.metadata.labels.app == 'a'",
		"has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'] == 'a'",
		"object.metadata.labels.app == 'a' && has(object.metadata.labels.app) && has(object.metadata.labels)",
		"!has(object.metadata.labels) || !has(object.metadata.labels.app) || object.metadata.labels.app == 'a'",
		"has(object.metadata.labels) ? 'app' in object.metadata.labels : false", "has(request.namespace) && request.namespace == 'a'",
		"oldObject != null && has(oldObject.metadata.name) && oldObject.metadata.name == 'a'", "oldObject == null || oldObject.kind == 'Pod'",
		"object == null || object.metadata.name == 'a'", "has(request.userInfo.username) && request.userInfo.username == 'a'", "request.operation != 'DELETE'",
	} {
		if !Defined(c, created...) {
			t.Errorf("%s has a value for every object", c)
		}
	}
	for _, c := range []string{
		"object.metadata.annotations.nope == 'x'", "object.metadata.labels.app == 'a'", "object.metadata.labels['app'] == 'a'", "has(object.metadata.labels.app)",
		"object.spec.replicas == 1", "has(object.spec.replicas)", "has(object.metadata.name.first)", "object.metadata.namespace == 'a'", "request.namespace == 'a'",
		"oldObject.metadata.name == 'a'", "object.metadata.name", "object.metadata.name && true", "!object.metadata.name", "object.metadata.name > 1", "1/0 == 1",
		"object.metadata.name.matches('(')", "object.metadata.name.matches(object.metadata.name)", "object.metadata.name.startsWith(1)", "int(object.metadata.name) == 1",
		"has(object.metadata.labels) || object.metadata.labels.app == 'a'", "has(object.metadata.labels) ? true : object.metadata.labels.app == 'a'",
		"object.metadata.?labels.?app.value() == 'a'", "object.?spec.?x.?y.orValue('') == 'a'", "object.metadata.?name.?first.orValue('') == 'a'", "'a' in object.metadata",
		"oldObject == null && oldObject.metadata.name == 'a'", "object.metadata.name in object.metadata.name", "namespaceObject.metadata.name == 'a'", "nothing == 1",
		"[1].all(x, x > 0)", "object.metadata.name ==", "has(object.metadata.labels) && object.metadata.labels.app == 'a'", "has(request.userInfo.extra.x)",
		"has(object.metadata.labels) != has(object.metadata.labels.app)", "request.userInfo.username == 'a'",
	} {
		if Defined(c, created...) {
			t.Errorf("%s may have no value", c)
		}
	}
	if Defined("object.metadata.name == 'a'", "request") {
		t.Error("there is no object")
	}
}
