package typecheck

import "testing"

// Conditions are checked with the functions, variables and types of an API server of the version.
func TestCheckCondition(t *testing.T) {
	for _, c := range []struct {
		expression string
		since      uint // 0: no version accepts it
	}{
		{"true", 29}, {" true // a comment", 29}, {"object.metadata.name == 'a' && oldObject == null && request.userInfo.username == 'a'", 29},
		{"namespaceObject.metadata.name == 'a'", 29}, {"authorizer.group('').resource('pods').check('get').allowed()", 29},
		{"authorizer.requestResource.check('get').allowed()", 29}, {"sets.contains([1], [1])", 29},
		{"ip('10.0.0.1').family() == 4", 30}, {"format.dns1123Label().validate('a').hasValue()", 31}, {"[1].transformList(i, v, v).size() == 1", 32},
		{"[1].first().value() == 1", 33}, {"optional.unwrap([optional.of(1)]) == [1]", 33},
		{"authorizer.group('').resource('pods').labelSelector('a=b').check('get').allowed()", 31}, {"semver('1.2.3').major() == 1", 33}, {"lists.range(2).size() == 2", 34},
		{"", 0}, {"1", 0}, {"dyn(true)", 0}, {"object.x +", 0}, {"unknown", 0}, {"params.a", 0}, {"variables.a", 0}, {"resource.Get('v1', 'pods', 'a', 'b') == null", 0},
		{"'a'.matches('[')", 0}, {"[1, 'a'] == []", 0},
	} {
		for minor := uint(29); minor <= 36; minor++ {
			err := Condition(1, minor, c.expression)
			if accepted := c.since > 0 && minor >= c.since; accepted != (err == nil) {
				t.Errorf("%q in 1.%d: %v", c.expression, minor, err)
			}
		}
	}
	// An API server that is compatible with 1.36 is one of 1.37, which lacks this.
	if err := Condition(1, 36, "duration(size('a')) < duration('1s')"); err == nil {
		t.Error("a function that 1.37 lacks is accepted")
	}
	// Before 1.31, literal arguments of format() are not checked; an API server that is compatible with 1.29 is one of 1.30.
	for minor, accepted := range map[uint]bool{29: true, 30: false, 36: false} {
		if err := Condition(1, minor, "'%d'.format(['a']) == ''"); (err == nil) != accepted {
			t.Errorf("format() in 1.%d: %v", minor, err)
		}
	}
	if err := Condition(1, 29, "'%s is %d'.format(['a', 1]) == ''"); err != nil {
		t.Error(err)
	}
}
