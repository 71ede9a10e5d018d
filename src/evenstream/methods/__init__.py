"""The methods, one short file each. In text, `er` means `evenstream.methods.ER()`.

Policies of a single method (which rows it replays or stores, how it predicts) are with it.
"""

from __future__ import annotations

from evenstream.core.criterion import Need
from evenstream.core.part import TaskData
from evenstream.core.rows import Rows
from evenstream.methods.aser import ASER, AdversarialShapley, HighestShapleyValues
from evenstream.methods.auto import Auto
from evenstream.methods.base import METHODS, Method, register
from evenstream.methods.bic import BiC
from evenstream.methods.class_means import ClassMeans
from evenstream.methods.clib import CLIB, LeastImportantOfTheLargestClass
from evenstream.methods.derpp import DERpp
from evenstream.methods.e2e import E2E
from evenstream.methods.er import ER
from evenstream.methods.er_ace import ERACE
from evenstream.methods.er_cba import ERCBA
from evenstream.methods.er_cbl import ERCBL
from evenstream.methods.er_down import ERDown
from evenstream.methods.er_obc import EROBC
from evenstream.methods.er_posthoc import ERPostHoc
from evenstream.methods.er_up import ERUp, OverSampledAbsentClasses
from evenstream.methods.er_wn import ERWN
from evenstream.methods.ewc import EWC
from evenstream.methods.fine_tune import FineTune
from evenstream.methods.gdumb import GDumb
from evenstream.methods.geodl import GeoDL
from evenstream.methods.il2m import IL2M
from evenstream.methods.joint import Joint
from evenstream.methods.labels_trick import LabelsTrick
from evenstream.methods.lucir import LUCIR
from evenstream.methods.lucir_full import LUCIRFull
from evenstream.methods.lwf import LwF
from evenstream.methods.lwf_lt import LwFLabelsTrick
from evenstream.methods.mir import MIR, MaximallyInterfered
from evenstream.methods.mkd import MKD
from evenstream.methods.mro import MRO
from evenstream.methods.ocm import OCM
from evenstream.methods.ocs import OCS
from evenstream.methods.pcr import PCR
from evenstream.methods.pec import PEC, SmallestError
from evenstream.methods.randumb import RanDumb
from evenstream.methods.ranpac import RanPAC
from evenstream.methods.rar import RAR
from evenstream.methods.scr import SCR
from evenstream.methods.slda import SLDA
from evenstream.methods.ss_il import SSIL

__all__ = [
    "ASER",
    "CLIB",
    "E2E",
    "ER",
    "ERACE",
    "ERCBA",
    "ERCBL",
    "EROBC",
    "ERWN",
    "EWC",
    "IL2M",
    "LUCIR",
    "METHODS",
    "MIR",
    "MKD",
    "MRO",
    "OCM",
    "OCS",
    "PCR",
    "PEC",
    "RAR",
    "SCR",
    "SLDA",
    "SSIL",
    "AdversarialShapley",
    "Auto",
    "BiC",
    "ClassMeans",
    "DERpp",
    "ERDown",
    "ERPostHoc",
    "ERUp",
    "FineTune",
    "GDumb",
    "GeoDL",
    "HighestShapleyValues",
    "Joint",
    "LUCIRFull",
    "LabelsTrick",
    "LeastImportantOfTheLargestClass",
    "LwF",
    "LwFLabelsTrick",
    "MaximallyInterfered",
    "Method",
    "Need",
    "OverSampledAbsentClasses",
    "RanDumb",
    "RanPAC",
    "Rows",
    "SmallestError",
    "TaskData",
    "register",
]


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
