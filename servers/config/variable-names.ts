import { variableNames } from './env-schema.js'

/** Variables whose names differ from those of the options that they set. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  serviceSigner: 'PRIVATE_KEY',
  previousServiceDids: 'PRIVATE_KEY',
  resourceIssuer: 'TRUSTED_ISSUER',
  resourceKeys: 'RESOURCE_KEY',
  siwe: 'TRUSTED_ORIGINS'
}

/** Texts of the library that concern its callers, with the texts for operators of the servers. */
const TEXTS: readonly [RegExp, string][] = [
  [/the app's `trust proxy` is off/, 'TRUST_PROXY is off'],
  [/pass a logger with debug for the reason/, 'LOG_LEVEL=debug shows the reason'],
  [/, siwe\.domains\b/, '']
]

/** Returns the variable for an option of the library; the option itself if no variable sets it. */
export function variableFor(option: string): string {
  const variable = option.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
  return OTHER_NAMES[option] ?? (variableNames.includes(variable) ? variable : option)
}

/**
 * Replaces the options in a text of the library by variables. An option of one word, such as `resources`, is replaced
 * only where the text marks it as an option.
 */
export function nameVariables(text: string): string {
  const adapted = TEXTS.reduce((current, [pattern, replacement]) => current.replace(pattern, replacement), text)
  return adapted
    .replace(/\b[a-z]+(?:[A-Z][a-z]+)+\b/g, variableFor)
    .replace(/\bthe option (\w+) decides/, (sentence, option: string) => {
      const variable = variableFor(option)
      return variable === option && !variableNames.includes(option) ? sentence : `the variable ${variable} decides`
    })
    .replace(
      /^( {2}- )(\w+): received/gm,
      (_line, start: string, option: string) => `${start}${variableFor(option)}: received`
    )
}
