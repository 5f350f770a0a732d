package names

// Domain is the prefix of names of Ephor's own.
const Domain = "ephor.dev/"

// Exceptions is the prefix of the annotations of exceptions.
const Exceptions = "exceptions." + Domain
