/** Phrases that documents avoid, as parts of a regular expression, each with the words to use instead. */
const AVOIDED_PHRASES = [
  ['beside', 'next to, in addition to, compared with'],
  ['alone', 'only'],
  ['good', 'valid'],
  ['bad (?:token|signature|proof|challenge|credential)s?', 'invalid'],
  ['(?:of )?ours', "the library's, the server's"],
  ['nobody|whoever', 'no one, anybody who; of a server: unavailable'],
  ['the other end', 'the client, the server'],
  ['(?:is|are|was|were) asked for', 'requested'],
  ['(?:goes|go|is|are) away', 'is deleted, is unavailable'],
  ['answered \\d{3}', 'the answer is 503, gets 503'],
  ['once more|anew', 'again'],
  ['by itself', 'automatically, without a restart, without help'],
  ['the like', 'such as, similar'],
  ['(?:bytes|requests|logins|GETs|peak|times|\\d+) a second', 'per second'],
  ['says otherwise', 'unless the option is set'],
  ['(?:lies|stands) (?:there|in|at|on|behind)|became of', 'is, is stored'],
  ['are no browsers|that pay|walks with', 'non-browser clients, uses'],
  [
    'patience|nonsense|doubtful|change of mind|in earnest|of late|minded|room|lets? go|mend(?:s|ed|ing)?',
    'a usual term'
  ]
].map(([phrase, better]) => [new RegExp(`\\b(?:${phrase.replaceAll(' ', '\\s+')})\\b`, 'gi'), better])

/** Code blocks, code within a line, and targets of links. */
const NO_PROSE = /^( *)```[^]*?^ *```$|`[^`]*`|\]\([^)\s]*\)/gm

/**
 * Finds phrases to avoid in the prose of a Markdown text, also across line breaks.
 *
 * @returns messages, such as `12: "once more": write again`, in the order of the text
 */
export function findAvoidedPhrases(markdown) {
  const prose = markdown.replaceAll(NO_PROSE, (code) => code.replaceAll(/[^\n]/g, ' '))
  const lineAt = (index) => prose.slice(0, index).split('\n').length
  return AVOIDED_PHRASES.flatMap(([pattern, better]) =>
    [...prose.matchAll(pattern)].map(({ 0: phrase, index }) => ({ phrase, better, line: lineAt(index) }))
  )
    .sort((a, b) => a.line - b.line)
    .map(({ phrase, better, line }) => `${line}: "${phrase.replaceAll(/\s+/g, ' ')}": write ${better}`)
}
