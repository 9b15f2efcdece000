import { secretVariables, variableNames } from './env-schema.js'

/** A name of up to four letters is one edit away from words that mean something else, such as `PAGER`. */
const LEAST_LENGTH = 5

/** Variables that the servers do not know, each with the known one that is one edit away: `SERVICE_ULR`. */
export function misspeltVariables(
  env: Readonly<Record<string, string | undefined>>
): { name: string; meant: string }[] {
  const known = [...variableNames, ...secretVariables.map((name) => `${name}_FILE`)]
  return Object.keys(env).flatMap((name) => {
    const meant = known.includes(name) ? undefined : known.find((one) => isOneEditAway(name, one))
    return meant === undefined ? [] : [{ name, meant }]
  })
}

/** Whether a letter is missing, added or another one, or two neighbours have changed places. */
function isOneEditAway(name: string, known: string): boolean {
  let start = 0
  while (start < known.length && name[start] === known[start]) start += 1
  const [rest, left] = [name.slice(start), known.slice(start)]
  const edited = [left.slice(1), `${rest.charAt(0)}${left}`, `${rest.charAt(0)}${left.slice(1)}`]
  const swapped = `${left.charAt(1)}${left.charAt(0)}${left.slice(2)}`
  return known.length >= LEAST_LENGTH && [...edited, swapped].includes(rest)
}
