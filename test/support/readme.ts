import { readFileSync } from 'node:fs'

/** A piece of code in a document. */
export interface CodeBlock {
  language: string
  code: string
}

/** A document in Markdown, as the tests look at it. */
export interface Markdown {
  text: string
  /** Without its code blocks. */
  prose: string
  blocks: CodeBlock[]
}

export function readMarkdown(file: string): Markdown {
  const text = readFileSync(file, 'utf8')
  const fence = /^( *)```(\w*)\n([^]*?)^ *```$/gm
  const blocks = [...text.matchAll(fence)].map(([, indent = '', language = '', code = '']) => ({
    language,
    code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), '')
  }))
  return { text, prose: text.replaceAll(fence, ''), blocks }
}

/**
 * The rows of the first table under a heading, each cell without the blanks around it.
 *
 * @throws Error when there is no such heading or table
 */
export function tableUnder({ prose }: Markdown, heading: string): string[][] {
  const section = prose.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`))
  const lines = section?.split('\n').filter((line) => line.startsWith('|')) ?? []
  if (lines.length < 3) throw new Error(`no table under "${heading}"`)
  return lines.slice(2).map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('\\|', '|'))
  )
}

/** The anchors that GitHub makes of headings. */
export function anchorsOf({ prose }: Markdown): string[] {
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-')
  )
}

/** Targets of all links: a path, an anchor, an address. */
export function linksOf({ prose }: Markdown): string[] {
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
}
