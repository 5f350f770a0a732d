// Package evalenv holds the resources that the evaluation of an expression may use beside its input, in any language.
//
//	env := &evalenv.Env{Meter: meter, World: root.For(program.Reach())}
//	v, err := query.Search(env, data)
//
// It decides nothing. The engine makes an Env; the languages read it.
//
// Floor 0: imports budget, imageref, trace and world.
package evalenv
