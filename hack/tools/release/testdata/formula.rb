# Installs a formula as Homebrew does, for a system and a processor. It has the words of the formula language that ephor.rb uses, and no others.
#
#   ruby formula.rb FORMULA darwin|linux amd64|arm64 ARCHIVE PREFIX [test]
require "digest"
require "fileutils"
require "pathname"
require "tmpdir"

FORMULA, SYSTEM, PROCESSOR, ARCHIVE, FOLDER, TEST = ARGV
PREFIX = Pathname(FOLDER)

# The methods that Homebrew adds to folders.
class Pathname
  def install(*sources)
    mkpath
    sources.flatten.each do |source|
      pairs = source.is_a?(Hash) ? source : { source => File.basename(source) }
      pairs.each { |from, to| FileUtils.cp(from, self / to) }
    end
    raise "nothing is installed in #{self}" if sources.flatten.empty?
  end

  def install_symlink(links)
    links.each { |from, to| FileUtils.ln_s(from, self / to) }
  end
end

# A formula, with the words of its class and of its methods.
class Formula
  class << self
    %i[desc homepage version license url sha256].each do |word|
      define_method(word) do |value = nil|
        @values ||= {}
        raise "two values of #{word}" if value && @values[word]

        value ? @values[word] = value : @values.fetch(word)
      end
    end

    def on_macos
      yield if SYSTEM == "darwin"
    end

    def on_linux
      yield if SYSTEM == "linux"
    end

    def on_intel
      yield if PROCESSOR == "amd64"
    end

    def on_arm
      yield if PROCESSOR == "arm64"
    end

    def test(&block)
      block ? @test = block : @test
    end
  end

  def version = self.class.version
  def bin = PREFIX / "bin"
  def bash_completion = PREFIX / "etc/bash_completion.d"
  def zsh_completion = PREFIX / "share/zsh/site-functions"
  def fish_completion = PREFIX / "share/fish/vendor_completions.d"
  def man1 = PREFIX / "share/man/man1"

  def shell_output(command)
    out = `#{command}`
    raise "#{command} fails: #{$?}" unless $?.success?

    out
  end

  def assert_match(want, got)
    raise "#{want.inspect} is not in #{got.inspect}" unless got.match?(want.is_a?(Regexp) ? want : Regexp.new(Regexp.escape(want)))
  end
end

load FORMULA
raise "the address does not end with the name of the archive: #{Ephor.url}" unless ARCHIVE.end_with?(File.basename(Ephor.url)) || !TEST
raise "the SHA-256 of the archive is not #{Ephor.sha256}" unless Digest::SHA256.file(ARCHIVE).hexdigest == Ephor.sha256
raise "a description has at most 80 characters, and no article or full stop" if Ephor.desc.length > 80 || Ephor.desc.match?(/\A(An?|The) |\.\z/)

[Ephor.homepage, Ephor.license, Ephor.version].each { |value| raise "a value is empty" if value.empty? }
Dir.mktmpdir do |work|
  archive = File.expand_path(ARCHIVE)
  Dir.chdir(work) do
    raise "cannot unpack #{archive}" unless system("tar", "-xzf", archive)

    Ephor.new.install
  end
end
Ephor.new.instance_eval(&Ephor.test) if TEST
