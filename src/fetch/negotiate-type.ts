/** One media range of an `Accept` header. */
interface MediaRange {
  type: string
  subtype: string
  /** Quality between 0 and 1. */
  quality: number
  parameters: string[]
}

/**
 * Returns the media type that an `Accept` header prefers, as `req.accepts` of Express does; false if it accepts none.
 * The types have no parameters. Without a header, the first type is preferred.
 * @see RFC 9110, section 12.5.1
 */
export function negotiateType(accept: string | undefined, types: readonly string[]): string | false {
  if (accept === undefined || accept === '') return types[0] ?? false
  const ranges = splitUnquoted(accept, ',').flatMap(parseRange)
  const ratings = types.map((type) => rateType(type, ranges)).filter(({ quality }) => quality > 0)
  // Sorting is stable: of equal types, the first one given is preferred.
  ratings.sort((a, b) => b.quality - a.quality || b.specificity - a.specificity || a.position - b.position)
  return ratings[0]?.name ?? false
}

/** Rates a type by the most specific range that it matches; of equal ones, by the one of the best quality. */
function rateType(name: string, ranges: readonly MediaRange[]) {
  const [type = '', subtype = ''] = name.toLowerCase().split('/')
  let best = { name, specificity: 0, quality: 0, position: -1 }
  for (const [position, range] of ranges.entries()) {
    const matches = (range.type === type || range.type === '*') && (range.subtype === subtype || range.subtype === '*')
    // A type without parameters matches only parameters that may have any value.
    if (!matches || !range.parameters.every((value) => value === '*' || value === '')) continue
    const specificity =
      Number(range.type === type) * 4 + Number(range.subtype === subtype) * 2 + Number(range.parameters.length > 0)
    const { quality } = range
    const isLess = specificity === best.specificity ? quality < best.quality : specificity < best.specificity
    if (!isLess) best = { name, specificity, quality, position }
  }
  return best
}

function parseRange(text: string): MediaRange[] {
  const [range = '', ...rest] = splitUnquoted(text, ';').map((part) => part.trim())
  const [type, ...subtypes] = range.toLowerCase().split('/')
  if (type === undefined || subtypes.length === 0) return []
  const parameters = new Map<string, string>()
  for (const part of rest) {
    const [name = '', ...value] = part.split('=')
    const key = name.trim().toLowerCase()
    // The first one counts.
    if (value.length > 0 && !parameters.has(key)) parameters.set(key, unquote(value.join('=').trim()))
  }
  const quality = parseFloat(parameters.get('q') || '1')
  parameters.delete('q')
  return [{ type, subtype: subtypes.join('/'), quality, parameters: [...parameters.values()] }]
}

/** Splits a text at a separator, except within quotes. */
function splitUnquoted(text: string, separator: string): string[] {
  const parts: string[] = []
  let start = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at += 1) {
    if (isQuoted && text[at] === '\\') at += 1
    else if (text[at] === '"') isQuoted = !isQuoted
    else if (text[at] === separator && !isQuoted) {
      parts.push(text.slice(start, at))
      start = at + 1
    }
  }
  return [...parts, text.slice(start)]
}

function unquote(value: string): string {
  return value.startsWith('"') ? value.slice(1, value.endsWith('"') ? -1 : undefined).replace(/\\(.)/g, '$1') : value
}
