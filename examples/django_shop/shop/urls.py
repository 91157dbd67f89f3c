"""The pages of the shop."""

from django.contrib import admin
from django.urls import path

from shop.views import create_order

urlpatterns = [path("orders/", create_order), path("admin/", admin.site.urls)]
