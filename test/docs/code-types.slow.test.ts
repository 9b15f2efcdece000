import { describe, expect, it } from '@jest/globals'
import { readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { listFragments, writeFragments } from '../support/fixtures/document-code.js'
import { readDocument, root } from '../support/fixtures/documents.js'

/** Compiles files with the strict settings of this project. Returns the faults. */
function compile(files: readonly string[], changes: ts.CompilerOptions = {}, onlyIn?: string): string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path)) as {
    config: object
  }
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const program = ts.createProgram(files, { ...options, ...changes })
  const source = onlyIn === undefined ? undefined : program.getSourceFile(onlyIn)
  return ts.getPreEmitDiagnostics(program, source).map(({ file, messageText }) => {
    return `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
}

// The fast tests code.test.ts and guides.test.ts run the same code.
describe("the types of the documents' code", () => {
  const fragments = listFragments('.cache/documents-types')

  it('fit those of the library', () => {
    writeFragments(fragments)
    // Packages without their own types are declared next to the code that uses them.
    const declarations = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.d.ts'))
      .map((name) => join(root, 'src', name))
    expect(compile([...fragments.map(({ path }) => path), ...declarations])).toEqual([])
  })

  it("fit those of the client on the page of the coding agents' skill", () => {
    const { blocks } = readDocument('examples/skills/express-did-auth/SKILL.md')
    const file = join(dirname(fragments[0]!.path), 'skill-page.mjs')
    writeFileSync(file, blocks.find(({ language }) => language === 'js')!.code)
    const lib = ['lib.es2023.d.ts', 'lib.dom.d.ts']
    expect(compile([file], { allowJs: true, checkJs: true, noEmit: true, lib }, file)).toEqual([])
  })
})
